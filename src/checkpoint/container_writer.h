// Writes a container so that a kill at any moment costs only the work of the last seconds. Used by
// the converter and by whoever makes random models.
//
// The layout is fixed before the first byte. What is written are *units*: each dense tensor, then
// each expert, layer by layer. Finished units are synced and noted in a journal; the index appears,
// by a rename, when everything else is on the drive. So a folder without an index is no container,
// and the final bytes do not depend on interruptions or on the order of the units.
#pragma once

#include "checkpoint/checksum.h"
#include "checkpoint/container_format.h"
#include "checkpoint/metadata_files.h"
#include "io/output_file.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ft::checkpoint {

class ContainerWriter {
 public:
  /// What the folder was when it was opened. Of a resumed one the last noted unit of each file has
  /// been read again.
  enum class State { kNew, kResumed, kComplete };

  /// `index` says what will be written: names, formats and shapes, number of experts (the size of
  /// `checksums`, whose values are set here); lay_out() is called and index.metadata is set here.
  /// Creates the folder; nothing else is written
  /// before start(). Throws InvalidInput if the folder holds anything but the unfinished or
  /// finished container of the same index.
  ContainerWriter(std::filesystem::path folder,
                  ContainerIndex index,
                  std::vector<MetadataText> metadata);
  ~ContainerWriter();
  ContainerWriter(const ContainerWriter&) = delete;
  ContainerWriter& operator=(const ContainerWriter&) = delete;
  ContainerWriter(ContainerWriter&&) = delete;
  ContainerWriter& operator=(ContainerWriter&&) = delete;

  State state() const noexcept { return state_; }
  const ContainerIndex& index() const noexcept { return index_; }
  /// Bytes of all units, and of those that a resumed folder already has.
  std::uint64_t total_bytes() const noexcept { return total_bytes_; }
  std::uint64_t done_bytes() const noexcept { return done_bytes_; }
  /// Bytes of the drive that are still needed.
  std::uint64_t missing_bytes() const;

  std::size_t n_units() const noexcept { return units_.size(); }
  /// Unit of a dense tensor: its place in index().dense.
  std::size_t expert_unit(std::size_t expert_layer, std::size_t expert) const noexcept {
    return first_units_[expert_layer] + expert;
  }
  bool is_done(std::size_t unit) const noexcept { return units_[unit].is_done; }

  /// Throws ResourceExhausted if the drive has too little room; then writes the small files and
  /// opens the large ones. Not for a complete folder.
  void start();
  /// One unit at a time: begin, its tensors' bytes in order in pieces of any size, end. Zero bytes
  /// between and behind tensors are the writer's. Throws IoError.
  void begin(std::size_t unit);
  void append(std::span<const std::byte> bytes);
  void end();
  /// Notes what is done so far; happens by itself every few seconds of writing. Waits for the
  /// drive.
  void save();
  /// All units must be done. The folder is a container when this returns.
  void finish();

 private:
  struct Unit {
    std::size_t file = 0;  // 0 is the dense file, i + 1 that of index_.experts[i]
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    std::uint64_t checksum = 0;
    bool is_done = false;
  };
  struct Open;  // the unit being written

  void list_units();
  void open_folder();
  void check_files() const;
  void read_journal(const std::string& text);
  void drop_torn_units(const std::vector<std::size_t>& units, std::span<const std::size_t> begins);
  bool is_as_noted(std::size_t unit) const;
  std::string journal_header() const;
  std::filesystem::path data_path(std::size_t file) const;
  std::uint64_t data_bytes(std::size_t file) const;
  void put(std::span<const std::byte> bytes);
  void pad_to(std::uint64_t position);
  void start_saving();

  std::filesystem::path folder_;
  std::optional<io::FolderLock> lock_;
  ContainerIndex index_;
  std::vector<MetadataText> metadata_;
  State state_ = State::kNew;
  std::vector<Unit> units_;
  std::vector<std::size_t> first_units_;  // per expert layer
  std::uint64_t total_bytes_ = 0;
  std::uint64_t done_bytes_ = 0;
  std::uint64_t journal_bytes_ = 0;  // the part of the journal that is sound
  std::vector<io::OutputFile> files_;
  std::optional<io::AppendFile> journal_;
  std::unique_ptr<Open> open_;
  std::vector<std::size_t> unsaved_units_;
  std::uint64_t unsaved_bytes_ = 0;
  std::uint64_t portion_bytes_;  // saved at once
  std::future<void> saving_;     // last: its end is awaited before the files close
};

}  // namespace ft::checkpoint
