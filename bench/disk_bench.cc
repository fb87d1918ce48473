// Reads random extents of a file through a read queue and prints one JSON line with the rate, the
// processor time and the latencies. bench/disk.py runs it beside fio.
#include "base/buffer.h"
#include "io/cpu_times.h"
#include "io/read_queue.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <random>
#include <string>
#include <sys/mman.h>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace {

struct Flags {
  std::string file;
  std::string queue = "auto";
  std::size_t piece_bytes = ft::io::ReadQueueOptions{}.piece_bytes;
  std::size_t depth = ft::io::ReadQueueOptions{}.depth;
  std::size_t read_bytes = 18'915'328;               // an expert of GLM-5.2 at 4 bits
  std::size_t n_reads = 8;                           // at once, as one layer of one token asks for
  std::size_t align_bytes = ft::io::kBulkAlignment;  // offsets are multiples of this
  double seconds = 2;
  bool has_small_pages = false;
  bool is_buffered = false;
};

Flags parse(int argc, char** argv) {
  Flags flags;
  CLI::App app("Random reads of a file through a read queue");
  app.add_option("file", flags.file)->required();
  app.add_option("--queue", flags.queue)->check(CLI::IsMember({"auto", "uring", "threads"}));
  app.add_option("--piece", flags.piece_bytes)->transform(CLI::AsSizeValue(false));
  app.add_option("--depth", flags.depth);
  app.add_option("--read", flags.read_bytes)->transform(CLI::AsSizeValue(false));
  app.add_option("--reads", flags.n_reads);
  app.add_option("--align", flags.align_bytes)->transform(CLI::AsSizeValue(false));
  app.add_option("--seconds", flags.seconds);
  app.add_flag("--small-pages", flags.has_small_pages, "read into pages of 4 KiB");
  app.add_flag("--buffered", flags.is_buffered, "through the page cache");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
  }
  return flags;
}

ft::io::ReadQueueOptions::Kind kind_of(const std::string& name) {
  using Kind = ft::io::ReadQueueOptions::Kind;
  return name == "uring" ? Kind::kUring : name == "threads" ? Kind::kThreads : Kind::kAuto;
}

void run(const Flags& flags) {
  if (flags.depth == 0 || flags.n_reads == 0 || flags.align_bytes == 0) {
    throw std::runtime_error("--depth, --reads and --align are at least 1");
  }
  const auto file = ft::io::BulkFile::open(flags.file, !flags.is_buffered);
  if (file.size_bytes() < flags.read_bytes) {
    throw std::runtime_error(fmt::format(
        "{} has {} bytes, fewer than --read {}", flags.file, file.size_bytes(), flags.read_bytes));
  }
  ft::Buffer memory(flags.n_reads * flags.read_bytes);
  if (flags.has_small_pages) madvise(memory.data(), memory.size(), MADV_NOHUGEPAGE);
  std::memset(memory.data(), 1, memory.size());
  const auto queue = ft::io::make_read_queue(
      {.kind = kind_of(flags.queue), .piece_bytes = flags.piece_bytes, .depth = flags.depth});
  std::mt19937_64 random(std::random_device{}());
  const std::uint64_t n_places = (file.size_bytes() - flags.read_bytes) / flags.align_bytes + 1;
  const auto submit_into = [&](std::size_t slot) {
    const ft::io::ReadRequest request{
        .file = &file,
        .offset = random() % n_places * flags.align_bytes,
        .destination =
            memory.as<std::byte>(memory.size()).subspan(slot * flags.read_bytes, flags.read_bytes),
        .tag = slot,
        .priority = ft::io::ReadPriority::kDemand};
    queue->submit(std::span(&request, 1));
  };
  const auto before = ft::io::cpu_times();
  const auto now_s = [] { return ft::io::cpu_times().value().wall_s; };
  const double start = now_s();
  for (std::size_t slot = 0; slot < flags.n_reads; ++slot) submit_into(slot);
  std::vector<std::int64_t> latencies;
  std::vector<ft::io::ReadResult> finished;
  double end = start;
  while (end - start < flags.seconds) {  // what is at the drive at the end does not count
    finished.clear();
    queue->wait(finished);
    end = now_s();
    for (const auto& result : finished) {
      if (!result.error.empty()) throw std::runtime_error(result.error);
      latencies.push_back(result.latency_us);
      submit_into(static_cast<std::size_t>(result.tag));
    }
  }
  const auto after = ft::io::cpu_times();
  if (latencies.empty()) throw std::runtime_error("no read ended in time; raise --seconds");
  std::sort(latencies.begin(), latencies.end());
  const double gb = static_cast<double>(latencies.size() * flags.read_bytes) * 1e-9;
  fmt::print(
      R"({{"queue":"{}","direct":{},"gb_per_s":{:.3f},"cpu_s_per_gb":{:.4f},"p50_us":{},"p99_us":{}}})"
      "\n",
      queue->name(),
      file.is_direct(),
      gb / (end - start),
      (after.value().own_s - before.value().own_s) / gb,
      latencies[latencies.size() / 2],
      latencies[latencies.size() * 99 / 100]);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(parse(argc, argv));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "disk_bench: %s\n", error.what());
    return 1;
  }
}
