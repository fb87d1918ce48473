#include "checkpoint/container_writer.h"

#include "base/error.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>
#include <utility>

namespace ft::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxJournalBytes = std::size_t{64} << 20;
// Units are synced in portions: one sync costs milliseconds, and a kill loses at most two portions.
// They start small, so that small models go on too.
constexpr std::uint64_t kFirstPortionBytes = std::uint64_t{1} << 20;
constexpr std::uint64_t kLargestPortionBytes = std::uint64_t{64} << 20;
// For the index, the journal and the folder's own blocks.
constexpr std::uint64_t kSpareBytes = std::uint64_t{16} << 20;

std::string text_checksum(std::string_view text) {
  return checksum_text(checksum_of(std::as_bytes(std::span(text))));
}

/// The index as far as it is known before anything is written.
std::string plan_text(ContainerIndex index) {
  for (TensorLayout& tensor : index.dense) tensor.checksum = 0;
  for (ExpertLayer& layer : index.experts) {
    std::fill(layer.checksums.begin(), layer.checksums.end(), 0);
  }
  return write_container_index(index);
}

std::string source_text(const ContainerIndex& index) {
  std::string text;
  for (const SourceFile& file : index.sources) {
    text += fmt::format("{} {} {}\n", file.name, file.bytes, checksum_text(file.identity));
  }
  for (const MetadataFile& file : index.metadata) {
    text += fmt::format("{} {} {}\n", file.name, file.bytes, checksum_text(file.checksum));
  }
  return text;
}

std::string formats_text(const ContainerIndex& index) {
  std::string text;
  for (const auto& [part, format] : index.formats) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", part, format);
  }
  return text;
}

std::string journal_line(std::size_t unit, std::uint64_t checksum) {
  const std::string content = fmt::format("{} {}", unit, checksum_text(checksum));
  return fmt::format("{} {}\n", content, text_checksum(content));
}

/// Words of one line.
std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  while (!line.empty()) {
    const std::size_t end = std::min(line.find(' '), line.size());
    words.push_back(line.substr(0, end));
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return words;
}

}  // namespace

struct ContainerWriter::Open {
  std::size_t unit = 0;
  const std::vector<TensorLayout>* tensors = nullptr;  // of an expert; null: one dense tensor
  std::size_t tensor = 0;                              // the next to be filled
  std::uint64_t tensor_end = 0;                        // all positions are within the unit
  std::uint64_t position = 0;
  Checksum checksum;
};

ContainerWriter::ContainerWriter(fs::path folder,
                                 ContainerIndex index,
                                 std::vector<MetadataText> metadata)
    : folder_(std::move(folder)),
      index_(std::move(index)),
      metadata_(std::move(metadata)),
      portion_bytes_(kFirstPortionBytes) {
  index_.metadata.clear();
  for (const MetadataText& file : metadata_) {
    index_.metadata.push_back(
        {file.name, file.text.size(), checksum_of(std::as_bytes(std::span(file.text)))});
  }
  lay_out(index_);
  list_units();
  open_folder();
}

ContainerWriter::~ContainerWriter() = default;

void ContainerWriter::list_units() {
  for (const TensorLayout& tensor : index_.dense) {
    units_.push_back(
        {.file = 0, .offset = tensor.offset, .bytes = align_up(tensor.bytes, kTensorAlignment)});
  }
  for (std::size_t i = 0; i < index_.experts.size(); ++i) {
    const ExpertLayer& layer = index_.experts[i];
    first_units_.push_back(units_.size());
    for (std::size_t e = 0; e < layer.checksums.size(); ++e) {
      units_.push_back(
          {.file = i + 1, .offset = e * layer.extent_bytes, .bytes = layer.extent_bytes});
    }
  }
  for (const Unit& unit : units_) total_bytes_ += unit.bytes;
}

void ContainerWriter::open_folder() {
  io::refuse_unreachable("cannot write a container into", folder_);
  std::error_code error;
  if (io::is_there(folder_) && !fs::is_directory(folder_, error)) {
    fail("{} is a file, expected a folder to write a container into", in_quotes(folder_.native()));
  }
  fs::create_directories(folder_, error);
  if (error) {
    throw IoError(fmt::format(
        "cannot create the folder {}: {}", in_quotes(folder_.native()), error.message()));
  }
  lock_.emplace(folder_);
  if (io::is_there(folder_ / kIndexFileName)) {
    const std::string where = in_quotes((folder_ / kIndexFileName).native());
    const ContainerIndex found = parse_container_index(
        io::read_text(folder_ / kIndexFileName, kMaxContainerIndexBytes), where);
    if (plan_text(found) != plan_text(index_)) {
      fail("{} already is a container, of {} ({}); choose another folder",
           in_quotes(folder_.native()),
           source_text(found) != source_text(index_)     ? "another model"
           : formats_text(found) != formats_text(index_) ? "this model in other formats"
                                                         : "this model by another version",
           formats_text(found));
    }
    index_ = found;
    check_files();
    for (Unit& unit : units_) unit.is_done = true;
    done_bytes_ = total_bytes_;
    state_ = State::kComplete;
    fs::remove(folder_ / kJournalFileName, error);  // a kill may have left it
    return;
  }
  if (io::is_there(folder_ / kJournalFileName)) {
    read_journal(io::read_text(folder_ / kJournalFileName, kMaxJournalBytes));
    state_ = State::kResumed;
    return;
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_, error)) {
    if (entry.path().filename() == std::string(kJournalFileName) + ".part") continue;
    fail("{} is not empty (it holds {}) and no unfinished conversion; choose another folder",
         in_quotes(folder_.native()),
         in_quotes(entry.path().filename().native()));
  }
}

std::string ContainerWriter::journal_header() const {
  return fmt::format("foretoken-journal {} {} {} {}\n",
                     text_checksum(plan_text(index_)),
                     text_checksum(source_text(index_)),
                     text_checksum(formats_text(index_)),
                     formats_text(index_));
}

void ContainerWriter::read_journal(const std::string& text) {
  const std::string header = journal_header();
  if (!text.starts_with(header)) {
    const std::string_view first_line = std::string_view(text).substr(0, text.find('\n'));
    const std::vector<std::string_view> found = words_of(first_line);
    const std::vector<std::string_view> wanted = words_of(header);
    const char* difference = "by another version of the program";
    if (found.size() < 4 || found[2] != wanted[2]) {
      difference = "of another source";
    } else if (found[3] != wanted[3]) {
      difference = "with other formats";
    }
    fail("{} holds an unfinished conversion {}{}; remove the folder or choose another",
         in_quotes(folder_.native()),
         difference,
         found.size() > 4 ? fmt::format(" ({})", found[4].substr(0, 100)) : "");
  }
  journal_bytes_ = header.size();
  std::vector<bool> is_sound;  // files whose units count
  for (std::size_t file = 0; file <= index_.experts.size(); ++file) {
    std::error_code error;
    const std::uint64_t size = fs::file_size(data_path(file), error);
    is_sound.push_back(!error && size == data_bytes(file));
  }
  std::vector<std::size_t> noted;   // units in the order of their lines
  std::vector<std::size_t> begins;  // of these lines
  while (journal_bytes_ < text.size()) {
    const std::size_t end = text.find('\n', journal_bytes_);
    if (end == std::string::npos) break;  // torn by the kill
    const std::string line = text.substr(journal_bytes_, end + 1 - journal_bytes_);
    const std::vector<std::string_view> words = words_of(line);
    std::size_t unit = 0;
    std::from_chars(line.data(), line.data() + line.size(), unit);
    const std::optional<std::uint64_t> checksum =
        words.size() == 3 ? checksum_from_text(words[1]) : std::nullopt;
    if (!checksum || unit >= units_.size() || line != journal_line(unit, *checksum)) break;
    Unit& done = units_[unit];
    if (!is_sound[done.file])
      break;  // start() makes the file anew: what follows must not be trusted
    journal_bytes_ += line.size();
    if (done.is_done) continue;
    done.is_done = true;
    done.checksum = *checksum;
    noted.push_back(unit);
    begins.push_back(journal_bytes_ - line.size());
  }
  drop_torn_units(noted, begins);
  for (const Unit& unit : units_) done_bytes_ += unit.is_done ? unit.bytes : 0;
}

/// A drive that loses power may have kept the journal and not what it speaks of, although it was
/// told to write that first. What is torn then is what was written last: of each file the last unit
/// is read again, and if it is not as noted, it and all that was noted after it count no more.
void ContainerWriter::drop_torn_units(const std::vector<std::size_t>& units,
                                      std::span<const std::size_t> begins) {
  std::size_t n_trusted = units.size();
  std::vector<bool> is_checked(index_.experts.size() + 1, false);
  for (std::size_t i = units.size(); i-- > 0;) {
    const std::size_t file = units_[units[i]].file;
    if (is_checked[file]) continue;
    is_checked[file] = is_as_noted(units[i]);
    if (!is_checked[file]) n_trusted = i;
  }
  for (std::size_t i = n_trusted; i < units.size(); ++i) units_[units[i]].is_done = false;
  if (n_trusted < units.size()) journal_bytes_ = begins[n_trusted];
}

bool ContainerWriter::is_as_noted(std::size_t unit) const {
  const Unit& noted = units_[unit];
  const io::File file = io::File::open(data_path(noted.file));
  return checksum_of(file, noted.offset, noted.bytes, [](std::size_t) {}) == noted.checksum;
}

/// Of a complete container, by size.
void ContainerWriter::check_files() const {
  const auto check = [this](const fs::path& path, std::uint64_t bytes) {
    std::error_code error;
    const std::uint64_t found = fs::file_size(path, error);
    if (error || found != bytes) {
      fail("{} is a container whose file {} {}; remove the folder to write it anew",
           in_quotes(folder_.native()),
           in_quotes(path.filename().native()),
           error ? "cannot be read" : fmt::format("has {} bytes, expected {}", found, bytes));
    }
  };
  for (std::size_t file = 0; file <= index_.experts.size(); ++file) {
    check(data_path(file), data_bytes(file));
  }
  for (const MetadataFile& file : index_.metadata) check(folder_ / file.name, file.bytes);
}

fs::path ContainerWriter::data_path(std::size_t file) const {
  return folder_ / (file == 0 ? std::string(kDenseFileName) : index_.experts[file - 1].file);
}

std::uint64_t ContainerWriter::data_bytes(std::size_t file) const {
  return file == 0 ? index_.dense_bytes() : index_.experts[file - 1].file_bytes();
}

std::uint64_t ContainerWriter::missing_bytes() const {
  std::uint64_t missing = state_ == State::kComplete ? 0 : kSpareBytes;
  for (std::size_t file = 0; file <= index_.experts.size(); ++file) {
    missing += data_bytes(file) - std::min(data_bytes(file), io::occupied_bytes(data_path(file)));
  }
  return missing;
}

void ContainerWriter::start() {
  FT_CHECK(state_ != State::kComplete && files_.empty());
  const std::uint64_t free = io::free_bytes(folder_);
  if (missing_bytes() > free) {
    throw ResourceExhausted(
        fmt::format("{}: the container needs {} more bytes, the drive has {} free; make room or "
                    "choose another drive",
                    in_quotes(folder_.native()),
                    missing_bytes(),
                    free));
  }
  const fs::path journal = folder_ / kJournalFileName;
  if (state_ == State::kNew) {
    io::write_atomically(journal, journal_header());
    journal_bytes_ = journal_header().size();
  }
  for (const MetadataText& file : metadata_) {
    io::write_atomically(folder_ / file.name, file.text);
  }
  for (std::size_t file = 0; file <= index_.experts.size(); ++file) {
    files_.push_back(io::OutputFile::open(data_path(file), data_bytes(file)));
  }
  io::sync_folder(folder_);
  journal_.emplace(journal, journal_bytes_);
}

void ContainerWriter::begin(std::size_t unit) {
  FT_CHECK(open_ == nullptr && unit < units_.size() && !files_.empty());
  open_ = std::make_unique<Open>();
  open_->unit = unit;
  if (unit < index_.dense.size()) {
    open_->tensor_end = index_.dense[unit].bytes;
  } else {
    open_->tensors = &index_.experts[units_[unit].file - 1].tensors;
    open_->tensor_end = open_->tensors->front().bytes;
  }
}

void ContainerWriter::put(std::span<const std::byte> bytes) {
  const Unit& unit = units_[open_->unit];
  files_[unit.file].write_at(bytes, unit.offset + open_->position);
  open_->checksum.update(bytes);
  open_->position += bytes.size();
}

void ContainerWriter::pad_to(std::uint64_t position) {
  constexpr std::array<std::byte, kExtentAlignment> kZeros{};
  FT_CHECK(open_->position <= position && position - open_->position < kZeros.size());
  put(std::span(kZeros).first(static_cast<std::size_t>(position - open_->position)));
}

void ContainerWriter::append(std::span<const std::byte> bytes) {
  FT_CHECK(open_ != nullptr);
  while (!bytes.empty()) {
    if (open_->position == open_->tensor_end) {
      FT_CHECK(open_->tensors != nullptr && open_->tensor + 1 < open_->tensors->size());
      const TensorLayout& next = (*open_->tensors)[++open_->tensor];
      pad_to(next.offset);
      open_->tensor_end = next.offset + next.bytes;
      continue;  // a tensor may be empty
    }
    const auto n = static_cast<std::size_t>(
        std::min<std::uint64_t>(bytes.size(), open_->tensor_end - open_->position));
    put(bytes.first(n));
    bytes = bytes.subspan(n);
  }
}

void ContainerWriter::end() {
  FT_CHECK(open_ != nullptr && open_->position == open_->tensor_end);
  FT_CHECK(open_->tensors == nullptr || open_->tensor + 1 == open_->tensors->size());
  Unit& unit = units_[open_->unit];
  pad_to(unit.bytes);
  unit.checksum = open_->checksum.value();
  unit.is_done = true;
  done_bytes_ += unit.bytes;
  unsaved_bytes_ += unit.bytes;
  unsaved_units_.push_back(open_->unit);
  open_.reset();
  if (unsaved_bytes_ >= portion_bytes_) {
    start_saving();
    portion_bytes_ = std::min(2 * portion_bytes_, kLargestPortionBytes);
  }
}

void ContainerWriter::start_saving() {
  if (saving_.valid()) saving_.get();
  std::string lines;
  std::vector<std::size_t> touched;
  for (const std::size_t unit : unsaved_units_) {
    lines += journal_line(unit, units_[unit].checksum);
    if (touched.empty() || touched.back() != units_[unit].file) {
      touched.push_back(units_[unit].file);
    }
  }
  unsaved_units_.clear();
  unsaved_bytes_ = 0;
  // The drive works while the next units are computed.
  saving_ = std::async(std::launch::async, [this, lines, touched] {
    for (const std::size_t file : touched) files_[file].sync();
    journal_->append(lines);
  });
}

void ContainerWriter::save() {
  start_saving();
  saving_.get();
}

void ContainerWriter::finish() {
  FT_CHECK(open_ == nullptr);
  FT_CHECK(
      std::all_of(units_.begin(), units_.end(), [](const Unit& unit) { return unit.is_done; }));
  save();
  for (std::size_t i = 0; i < index_.dense.size(); ++i) {
    index_.dense[i].checksum = units_[i].checksum;
  }
  for (std::size_t i = 0; i < index_.experts.size(); ++i) {
    std::vector<std::uint64_t>& checksums = index_.experts[i].checksums;
    for (std::size_t e = 0; e < checksums.size(); ++e) {
      checksums[e] = units_[expert_unit(i, e)].checksum;
    }
  }
  for (const io::OutputFile& file : files_) file.sync();
  io::write_atomically(folder_ / kIndexFileName, write_container_index(index_));
  journal_.reset();
  std::error_code ignored;
  fs::remove(folder_ / kJournalFileName, ignored);
  io::sync_folder(folder_);
  state_ = State::kComplete;
}

}  // namespace ft::checkpoint
