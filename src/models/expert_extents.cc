#include "models/expert_extents.h"

#include "base/error.h"
#include "models/family.h"
#include "models/weight_plan.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

namespace ft::models {
namespace {

/// The first expert of a layer: its offsets are those in every extent.
struct FirstExpert {
  const checkpoint::PanelTensor* gate_up = nullptr;
  const checkpoint::PanelTensor* down = nullptr;
  WeightPart part = WeightPart::kExperts;
};

kernels::Weight view_at(const checkpoint::PanelTensor& tensor,
                        const std::byte* extent,
                        const kernels::Backend& backend) {
  return backend.view(checkpoint::panels_at(tensor, extent + tensor.offset_bytes),
                      kernels::Activation::kInt8);
}

/// A container's experts of a layer are alike.
std::map<std::size_t, FirstExpert> first_experts(const checkpoint::Checkpoint& checkpoint,
                                                 const WeightPlan& plan) {
  std::map<std::size_t, FirstExpert> out;
  for (const Packing& packing : plan.packings()) {
    if (!packing.expert || packing.expert->expert != 0) continue;
    if (packing.origin != Packing::Origin::kPanels) {
      fail(
          "{} cannot stream: the experts of layer {} are not stored as q4 or q8; convert the "
          "model with --expert-format and --mtp-format q4 or q8, or use --experts resident",
          in_quotes(checkpoint.folder().native()),
          packing.expert->layer);
    }
    FT_CHECK(packing.use == MatrixUse::kRoundedInputs);
    FirstExpert& expert = out[packing.expert->layer];
    (packing.up_name.empty() ? expert.down : expert.gate_up) =
        checkpoint.find_panels(packing.part.entry);
    expert.part = packing.belongs_to;
  }
  return out;
}

std::vector<checkpoint::Checkpoint> open_mirrors(const checkpoint::Checkpoint& checkpoint,
                                                 std::span<const std::filesystem::path> mirrors) {
  std::vector<checkpoint::Checkpoint> out;
  for (const std::filesystem::path& path : mirrors) {
    checkpoint::Checkpoint mirror = checkpoint::Checkpoint::open(path);
    if (mirror.container() == nullptr || mirror.index_checksum() != checkpoint.index_checksum()) {
      fail("mirror {} is not a copy of {}: its {} differs",
           in_quotes(path.native()),
           in_quotes(checkpoint.folder().native()),
           checkpoint::kIndexFileName);
    }
    out.push_back(std::move(mirror));
  }
  return out;
}

}  // namespace

std::vector<experts::LayerExtents> expert_extents(const checkpoint::Checkpoint& checkpoint,
                                                  std::span<const std::filesystem::path> mirrors,
                                                  const kernels::Backend& backend) {
  const checkpoint::ContainerIndex* index = checkpoint.container();
  if (index == nullptr) {
    fail(
        "{} is no container, and only containers stream their experts: make one with `foretoken "
        "convert`, or use --experts resident",
        in_quotes(checkpoint.folder().native()));
  }
  const std::vector<checkpoint::Checkpoint> copies = open_mirrors(checkpoint, mirrors);
  const DeclaredWeights declared = family_of(checkpoint).declare(checkpoint);
  std::vector<experts::LayerExtents> out;
  for (const auto& [layer, expert] : first_experts(checkpoint, declared.plan)) {
    const std::size_t shard = expert.down->shard;
    const checkpoint::ExpertLayer& stored = index->experts[shard - 1];
    FT_CHECK(stored.layer == layer && expert.gate_up->shard == shard);
    experts::LayerExtents& extents = out.emplace_back();
    extents.layer = layer;
    extents.tier = expert.part == WeightPart::kMtp ? experts::Tier::kDraft : experts::Tier::kTrunk;
    extents.extent_bytes = stored.extent_bytes;
    extents.checksums = stored.checksums;
    extents.files.push_back(checkpoint.shards()[shard].path);
    for (const checkpoint::Checkpoint& copy : copies) {
      extents.files.push_back(copy.shards()[shard].path);
    }
    extents.view =
        [gate_up = *expert.gate_up, down = *expert.down, &backend](const std::byte* extent) {
          return experts::Expert{view_at(gate_up, extent, backend), view_at(down, extent, backend)};
        };
  }
  return out;
}

}  // namespace ft::models
