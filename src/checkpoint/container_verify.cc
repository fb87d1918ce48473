#include "checkpoint/container_verify.h"

#include "base/error.h"
#include "checkpoint/checksum.h"
#include "checkpoint/container_format.h"
#include "io/file.h"

#include <utility>

namespace ft::checkpoint {
namespace {

class Verifier {
 public:
  Verifier(const std::filesystem::path& folder,
           FunctionRef<void(std::uint64_t, std::uint64_t)> progress)
      : folder_(folder), progress_(progress) {}

  std::vector<std::string> run() {
    const std::filesystem::path path = folder_ / kIndexFileName;
    try {
      refuse_unfinished(folder_);
      if (!io::is_there(path)) {
        fail("{} is no container (it holds no {}); only containers have checksums to verify",
             in_quotes(folder_.native()),
             kIndexFileName);
      }
      index_ = parse_container_index(io::read_text(path, kMaxContainerIndexBytes),
                                     in_quotes(path.native()));
    } catch (const InvalidInput& error) {
      return {error.what()};
    }
    for (const MetadataFile& file : index_.metadata) total_ += file.bytes;
    total_ += index_.dense_bytes();
    for (const ExpertLayer& layer : index_.experts) total_ += layer.file_bytes();
    for (const MetadataFile& file : index_.metadata) {
      with_file(file.name, file.bytes, [&](const io::File& opened) {
        check(opened, 0, file.bytes, file.checksum, "");
      });
    }
    with_file(std::string(kDenseFileName), index_.dense_bytes(), [&](const io::File& opened) {
      for (std::size_t i = 0; i < index_.dense.size(); ++i) {
        const TensorLayout& tensor = index_.dense[i];
        const std::uint64_t end =
            i + 1 < index_.dense.size() ? index_.dense[i + 1].offset : index_.dense_bytes();
        check(opened,
              tensor.offset,
              end - tensor.offset,
              tensor.checksum,
              fmt::format("tensor {}, ", in_quotes(tensor.name)));
      }
    });
    for (const ExpertLayer& layer : index_.experts) {
      with_file(layer.file, layer.file_bytes(), [&](const io::File& opened) {
        for (std::size_t e = 0; e < layer.checksums.size(); ++e) {
          check(opened,
                e * layer.extent_bytes,
                layer.extent_bytes,
                layer.checksums[e],
                fmt::format("layer {}, expert {}, ", layer.layer, e));
        }
      });
    }
    return std::move(problems_);
  }

 private:
  template <typename Check>
  void with_file(const std::string& name, std::uint64_t bytes, Check&& check_all) {
    try {
      const io::File file = io::File::open(folder_ / name);
      if (file.size_bytes() == bytes) {
        check_all(file);
        return;
      }
      problems_.push_back(fmt::format("{} has {} bytes, expected {}",
                                      in_quotes(file.path().native()),
                                      file.size_bytes(),
                                      bytes));
    } catch (const InvalidInput& error) {
      problems_.emplace_back(error.what());
    } catch (const IoError& error) {
      problems_.emplace_back(error.what());
    }
  }

  void check(const io::File& file,
             std::uint64_t offset,
             std::uint64_t bytes,
             std::uint64_t expected,
             const std::string& what) {
    const std::uint64_t found = checksum_of(file, offset, bytes, [this](std::size_t n) {
      done_ += n;
      progress_(done_, total_);
    });
    if (found == expected) return;
    problems_.push_back(
        fmt::format("{}: {}bytes {} to {}: checksum is {}, expected {}; the file is damaged",
                    in_quotes(file.path().native()),
                    what,
                    offset,
                    offset + bytes,
                    checksum_text(found),
                    checksum_text(expected)));
  }

  const std::filesystem::path& folder_;
  FunctionRef<void(std::uint64_t, std::uint64_t)> progress_;
  ContainerIndex index_;
  std::vector<std::string> problems_;
  std::uint64_t done_ = 0;
  std::uint64_t total_ = 0;
};

}  // namespace

std::vector<std::string> verify_container(
    const std::filesystem::path& folder,
    FunctionRef<void(std::uint64_t done, std::uint64_t total)> progress) {
  return Verifier(folder, progress).run();
}

}  // namespace ft::checkpoint
