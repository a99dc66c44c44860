// The program of docs/guide-producer.md: threads that handle orders, traced in
// every way that the guide tells of, and nothing else of a server.
//
// The guide quotes it piece by piece; a lint rule holds the two together.
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "examples/command_line.h"
#include "tracering/clock.h"
#include "tracering/producer.h"
#include "tracering/trace_fields.h"
#include "tracering/track_event.h"

namespace {

struct Order {
  Order(uint64_t number, std::string goods)
      : id(number),
        item(std::move(goods)),
        track("order " + std::to_string(number)) {}

  const uint64_t id;
  const std::string item;
  // A row of its own in the trace, whichever threads handle the order.
  tracering::AsyncTrack track;
};

// How an order looks as an argument of an event.
void WriteTraceValue(tracering::ValueWriter& out, const Order& order) {
  out.WriteDict([&order](tracering::DictWriter& dict) {
    dict.Add("id", order.id);
    dict.Add("item", order.item);
  });
}

// What every trace should hold, whenever a service began to record it.
void WriteConfiguration() {
  TRACERING_INSTANT("orders", "configuration", "workers", 2, "region", "eu");
}

absl::Status StartTracingOrders(const std::string& socket_path) {
  tracering::TracingOptions options;
  options.producer.name = "order_server";
  options.producer.socket_path = socket_path;  // empty: where services listen
  options.producer.ring_size = 4 << 20;        // a burst of some 40,000 events
  options.categories = {{"orders"}};  // until a service says which ones
  options.producer.on_session_start = WriteConfiguration;

  tracering::BufferOptions audit;
  audit.name = "audit";
  audit.own_ring = true;  // other events cannot take its room
  audit.ring_size = 256 << 10;
  audit.writer_options.emplace();
  audit.writer_options->policy = tracering::BufferExhaustedPolicy::kStall;
  audit.writer_options->stall_timeout = std::chrono::milliseconds(50);
  options.producer.buffers = {audit};

  return tracering::StartTracing(options);
}

// Packets of one's own making, for a buffer that no event goes to.
class AuditLog {
 public:
  // Null where nothing is traced.
  explicit AuditLog(std::shared_ptr<tracering::Producer> producer)
      : producer_(std::move(producer)) {
    if (producer_ != nullptr) track_ = producer_->AddTrack("audit");
  }

  void WriteShipped(const std::vector<Order*>& orders) {
    if (producer_ == nullptr) return;
    tracering::TraceWriter& writer = producer_->ThreadWriter("audit");
    const tracering::WriterBatch batch = writer.Batch();  // one publication
    for (const Order* order : orders) {
      tracering::Packet packet = writer.NewPacket();
      packet.AppendVarint(tracering::trace_packet::kTimestamp,
                          tracering::NowNs());
      tracering::Message event =
          packet.BeginMessage(tracering::trace_packet::kTrackEvent);
      event.AppendVarint(tracering::track_event::kType,
                         tracering::track_event::kTypeInstant);
      event.AppendVarint(tracering::track_event::kTrackUuid, track_);
      event.AppendString(tracering::track_event::kName,
                         "shipped " + std::to_string(order->id));
    }
  }

 private:
  const std::shared_ptr<tracering::Producer> producer_;
  uint64_t track_ = 0;
};

class OrderServer {
 public:
  // An order that takes longer than `slow` is worth a look.
  OrderServer(uint64_t orders, std::chrono::milliseconds slow) : slow_(slow) {
    for (uint64_t id = 1; id <= orders; ++id) {
      orders_.push_back(std::make_unique<Order>(id, "tea"));
    }
  }

  void Accept(Order& order) {
    TRACERING_SCOPE("orders", "accept", "order", order);
    TRACERING_ASYNC_BEGIN("orders", order.track, "order", "id", order.id);
    TRACERING_INSTANT("orders", "queued", tracering::Flow::Local(&order));
    std::lock_guard<std::mutex> guard(mutex_);
    queue_.push_back(&order);
    TRACERING_COUNTER("orders", "queue length", queue_.size());
  }

  void Handle(Order& order) {
    const auto start = std::chrono::steady_clock::now();
    {
      TRACERING_SCOPE("orders", "handle",
                      tracering::TerminatingFlow::Local(&order));
      TRACERING_INSTANT("orders.verbose", "stock", "shelves",
                        [] { return DescribeShelves(); });
      TRACERING_ASYNC_END(order.track, "status", "shipped");
    }
    if (std::chrono::steady_clock::now() - start >= slow_) ReportSlowOrder();
  }

  void Run() {
    for (const auto& order : orders_) Accept(*order);
    std::vector<std::thread> workers;
    workers.reserve(2);
    for (int i = 0; i < 2; ++i) {
      workers.emplace_back([this, i] {
        tracering::SetThreadName("worker " + std::to_string(i));
        while (Order* const order = Take()) Handle(*order);
      });
    }
    for (std::thread& worker : workers) worker.join();
    std::vector<Order*> shipped;
    for (const auto& order : orders_) shipped.push_back(order.get());
    AuditLog(tracering::TracingProducer()).WriteShipped(shipped);
  }

 private:
  Order* Take() {
    std::lock_guard<std::mutex> guard(mutex_);
    if (queue_.empty()) return nullptr;
    Order* const order = queue_.front();
    queue_.pop_front();
    TRACERING_COUNTER("orders", "queue length", queue_.size());
    return order;
  }

  // Has a service save what led up to this.
  static void ReportSlowOrder() {
    if (const auto producer = tracering::TracingProducer()) {
      producer->Trigger("slow_order").IgnoreError();
    }
  }

  // What nobody would pay for unless somebody looks at it.
  static std::vector<std::string> DescribeShelves() { return {"a1", "b2"}; }

  const std::chrono::milliseconds slow_;
  std::vector<std::unique_ptr<Order>> orders_;
  std::mutex mutex_;
  std::deque<Order*> queue_;
};

// One line for each ring, which says whether it is large enough.
void PrintLosses(const tracering::Producer::Stats& stats) {
  for (const tracering::Producer::RingStats& ring : stats.rings) {
    if (ring.metadata) continue;  // names of threads and tracks
    std::cout << "ring " << ring.name << ": " << ring.attempted
              << " packets, lost " << ring.lost();
    for (size_t i = 0; i < tracering::kNumWriterLossCauses; ++i) {
      if (ring.lost_by_cause[i] == 0) continue;
      const auto cause = static_cast<tracering::LossCause>(i);
      std::cout << ", " << tracering::LossCauseName(cause) << ' '
                << ring.lost_by_cause[i];
    }
    std::cout << '\n';
  }
}

void EndTracing() {
  const std::shared_ptr<tracering::Producer> producer =
      tracering::TracingProducer();
  if (producer == nullptr) return;
  const absl::Status flushed = producer->Flush(std::chrono::seconds(5));
  if (!flushed.ok()) {
    std::cerr << "not all of the trace was taken: " << flushed.message()
              << '\n';
  }
  PrintLosses(producer->stats());
  tracering::StopTracing();
}

}  // namespace

int main(int argc, char** argv) {
  std::string socket_path;
  uint64_t orders = 100;
  uint64_t slow_ms = 100;
  CommandLine line("order_server", argc, argv);
  while (line.Next()) {
    if (line.name() == "--socket") {
      socket_path = line.Value();
    } else if (line.name() == "--orders") {
      orders = line.Number(1, 1'000'000);
    } else if (line.name() == "--slow-ms") {
      slow_ms = line.Number(0, 3'600'000);
    } else if (line.name() == "--help") {
      std::cout << "usage: order_server [--socket PATH] [--orders N] "
                   "[--slow-ms N]\n";
      return EXIT_SUCCESS;
    } else {
      line.FailUnknown();
    }
  }
  if (absl::Status status = StartTracingOrders(socket_path); !status.ok()) {
    // The program goes on, untraced.
    std::cerr << "order_server: " << status.message() << '\n';
  }
  // A program as short as this one would end before it is connected.
  if (const auto producer = tracering::TracingProducer()) {
    producer->WaitForConsumer(std::chrono::seconds(5));
  }
  OrderServer(orders, std::chrono::milliseconds(slow_ms)).Run();
  EndTracing();
  return EXIT_SUCCESS;
}
