// XXH3, 64 bits, seed 0: what every byte of a container is checked by. Finds damage, not forgery.
// xxhash is behind this header.
#pragma once

#include "base/function_ref.h"
#include "io/file.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ft::checkpoint {

class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum(Checksum&& other) noexcept;
  Checksum& operator=(Checksum&& other) noexcept;
  Checksum(const Checksum&) = delete;
  Checksum& operator=(const Checksum&) = delete;
  void update(std::span<const std::byte> bytes);
  void update(std::string_view text) { update(std::as_bytes(std::span(text))); }
  /// Of everything so far.
  std::uint64_t value() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::uint64_t checksum_of(std::span<const std::byte> bytes) noexcept;
/// Of `bytes` bytes of a file, read in pieces; `progress` gets the length of each. Throws IoError.
std::uint64_t checksum_of(const io::File& file,
                          std::uint64_t offset,
                          std::uint64_t bytes,
                          FunctionRef<void(std::size_t)> progress);
/// 16 hex digits, as `xxhsum -H3` prints them.
std::string checksum_text(std::uint64_t value);
/// Inverse of checksum_text(); nullopt for anything else.
std::optional<std::uint64_t> checksum_from_text(std::string_view text) noexcept;

}  // namespace ft::checkpoint
