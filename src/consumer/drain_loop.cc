// The order of work in one step; see drain_loop.h for who may drive it.
#include "src/consumer/drain_loop.h"

#include <fmt/format.h>

#include <mutex>
#include <thread>
#include <utility>

#include "src/common/os/clock.h"
#include "src/common/os/eventfd.h"
#include "src/consumer/event_tag.h"

namespace tracering::internal {
namespace {

// Each costs one message at most, so that peers that talk a lot delay the
// rings of others by a few milliseconds.
constexpr size_t kMaxEventsPerStep = 16;
constexpr int64_t kDrainNsPerStep = 1'000'000;
// epoll_wait does not fail; if it does, do not burn a core over it.
constexpr auto kPauseAfterError = std::chrono::milliseconds(10);

}  // namespace

absl::StatusOr<std::unique_ptr<DrainLoop>> DrainLoop::Create(
    const Parts& parts, std::chrono::milliseconds period) {
  absl::StatusOr<os::TimerFd> timer = os::TimerFd::Create();
  if (!timer.ok()) return timer.status();
  absl::StatusOr<os::UniqueFd> wake_up = os::CreateEventFd();
  if (!wake_up.ok()) return wake_up.status();
  if (absl::Status status =
          parts.epoll->Add(timer->fd(), EPOLLIN, EventTag(EventKind::kTimer));
      !status.ok()) {
    return status;
  }
  if (absl::Status status = parts.epoll->Add(wake_up->get(), EPOLLIN,
                                             EventTag(EventKind::kWakeUp));
      !status.ok()) {
    return status;
  }
  return std::unique_ptr<DrainLoop>(
      new DrainLoop(parts, period, *std::move(timer), *std::move(wake_up)));
}

DrainLoop::DrainLoop(const Parts& parts, std::chrono::milliseconds period,
                     os::TimerFd timer, os::UniqueFd wake_up)
    : parts_(parts),
      period_(period),
      timer_(std::move(timer)),
      wake_up_(std::move(wake_up)) {}

void DrainLoop::WakeUp() { os::SignalEventFd(wake_up_.get()); }

void DrainLoop::Step(bool may_block) {
  epoll_event events[kMaxEventsPerStep];
  const bool wait = may_block && may_sleep_;
  const absl::StatusOr<size_t> ready = parts_.epoll->Wait(
      events, kMaxEventsPerStep, std::chrono::milliseconds(wait ? -1 : 0));
  // Every one of them: an edge is reported once.
  for (size_t i = 0; ready.ok() && i < *ready; ++i) {
    std::lock_guard<LoopMutex> guard(*parts_.mutex);
    Dispatch(events[i]);
  }
  parts_.log->Dispatch();
  if (!ready.ok()) {
    parts_.log->Add(fmt::format("{}", ready.status().ToString()));
    std::this_thread::sleep_for(kPauseAfterError);
  }
  RunSlices();
  {
    std::lock_guard<LoopMutex> guard(*parts_.mutex);
    if (parts_.server != nullptr) parts_.server->HandleEarlyMessages();
    OnSessionsChanged();
    may_sleep_ = parts_.scheduler->ArmForSleep();
  }
  parts_.log->Dispatch();
  if (!may_block && !may_sleep_) WakeUp();
}

void DrainLoop::RunSlices() {
  const int64_t end_ns = os::MonotonicNs() + kDrainNsPerStep;
  bool pressed = false;
  for (bool more = true; more && os::MonotonicNs() < end_ns;) {
    std::lock_guard<LoopMutex> guard(*parts_.mutex);
    AttachedRing* ring = parts_.scheduler->RunSlice();
    more = ring != nullptr;
    if (more) parts_.registry->OnSlice(ring);
    pressed |= parts_.buffers->TakeStreamPressure();
  }
  if (pressed) parts_.on_stream_pressure();
}

void DrainLoop::Dispatch(const epoll_event& event) {
  const uint64_t session = SessionOfTag(event.data.u64);
  switch (KindOfTag(event.data.u64)) {
    case EventKind::kWakeUp:
      os::ResetEventFd(wake_up_.get());
      break;
    case EventKind::kTimer:
      timer_.TakeExpirations();
      parts_.scheduler->WakeAllOutstanding();
      if (parts_.server != nullptr) parts_.server->OnTick();
      break;
    case EventKind::kListener:
      parts_.server->OnListenerReady();
      break;
    case EventKind::kConnection:
      parts_.server->OnConnectionReady(session);
      break;
    case EventKind::kProcessExit:
      parts_.server->OnProcessExit(session);
      break;
    case EventKind::kWritersSignal:
      parts_.registry->OnWritersSignalled(session);
      break;
  }
}

void DrainLoop::OnSessionsChanged() {
  if (parts_.server != nullptr) parts_.server->OnSessionsChanged();
  SyncTimer();
}

// The period runs only while it has something to do: an idle service sleeps.
void DrainLoop::SyncTimer() {
  const bool needed =
      !parts_.registry->sessions().empty() ||
      (parts_.server != nullptr && parts_.server->needs_timer());
  if (needed == timer_runs_) return;
  const absl::Status status =
      needed ? timer_.SetPeriodic(period_) : timer_.Disarm();
  if (status.ok()) timer_runs_ = needed;
}

}  // namespace tracering::internal
