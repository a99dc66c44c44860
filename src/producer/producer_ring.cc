// The ring that leads nowhere; see producer_ring.h.
#include "src/producer/producer_ring.h"

namespace tracering::internal {

std::shared_ptr<ProducerRing> ProducerRing::Nowhere() {
  static const auto* const ring =
      new std::shared_ptr<ProducerRing>(new ProducerRing(NowhereTag()));
  return *ring;
}

}  // namespace tracering::internal
