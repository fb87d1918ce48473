#include "checkpoint/checksum.h"

#include "base/buffer.h"
#include "base/error.h"

#include <algorithm>
#include <charconv>
#include <xxhash.h>

namespace ft::checkpoint {
namespace {

constexpr std::size_t kHexDigits = 16;

struct StateDeleter {
  void operator()(XXH3_state_t* state) const noexcept { XXH3_freeState(state); }
};

}  // namespace

struct Checksum::State {
  std::unique_ptr<XXH3_state_t, StateDeleter> state{XXH3_createState()};
};

Checksum::Checksum() : state_(std::make_unique<State>()) {
  if (state_->state == nullptr) throw ResourceExhausted("out of memory");
  XXH3_64bits_reset(state_->state.get());
}
Checksum::~Checksum() = default;
Checksum::Checksum(Checksum&& other) noexcept = default;
Checksum& Checksum::operator=(Checksum&& other) noexcept = default;

void Checksum::update(std::span<const std::byte> bytes) {
  XXH3_64bits_update(state_->state.get(), bytes.data(), bytes.size());
}

std::uint64_t Checksum::value() const {
  return XXH3_64bits_digest(state_->state.get());
}

std::uint64_t checksum_of(std::span<const std::byte> bytes) noexcept {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::uint64_t checksum_of(const io::File& file,
                          std::uint64_t offset,
                          std::uint64_t bytes,
                          FunctionRef<void(std::size_t)> progress) {
  constexpr std::uint64_t kPieceBytes = std::uint64_t{4} << 20;
  Buffer piece(static_cast<std::size_t>(std::min(bytes, kPieceBytes)));
  Checksum sum;
  for (std::uint64_t done = 0; done < bytes;) {
    const auto n = static_cast<std::size_t>(std::min(kPieceBytes, bytes - done));
    const std::span<std::byte> part(piece.data(), n);
    file.read_exactly(part, offset + done);
    sum.update(part);
    done += n;
    progress(n);
  }
  return sum.value();
}

std::string checksum_text(std::uint64_t value) {
  return fmt::format("{:016x}", value);
}

std::optional<std::uint64_t> checksum_from_text(std::string_view text) noexcept {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (text.size() != kHexDigits || error != std::errc{} || end != text.data() + text.size()) {
    return std::nullopt;
  }
  for (const char c : text) {
    if (c >= 'A' && c <= 'F') return std::nullopt;  // one spelling, so one text per index
  }
  return value;
}

}  // namespace ft::checkpoint
