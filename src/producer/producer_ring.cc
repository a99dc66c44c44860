// The ring that leads nowhere; see producer_ring.h.
#include "src/producer/producer_ring.h"

#include "src/common/os/fork_safe.h"

namespace tracering::internal {
namespace {

std::atomic<std::shared_ptr<ProducerRing>*> nowhere{nullptr};

}  // namespace

std::shared_ptr<ProducerRing> ProducerRing::Nowhere() {
  return os::GetOrMake(&nowhere, [] {
    return std::make_unique<std::shared_ptr<ProducerRing>>(
        new ProducerRing(NowhereTag()));
  });
}

}  // namespace tracering::internal
