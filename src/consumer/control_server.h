// The service's side of the control socket: who may connect, what they may
// ask, and how their end is noticed.
//
// Trust: a peer may send anything, many times, or nothing. Each readiness costs
// one bounded message; whatever breaks a rule ends that connection, with the
// reason, and no other. Who has not said Hello yet may hold few descriptors,
// and nobody the last ones. Guarded by the loop mutex; nothing here blocks.
#ifndef TRACERING_SRC_CONSUMER_CONTROL_SERVER_H_
#define TRACERING_SRC_CONSUMER_CONTROL_SERVER_H_

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/common/control/messages.h"
#include "src/common/os/epoll.h"
#include "src/common/os/unix_socket.h"
#include "src/consumer/event_log.h"
#include "src/consumer/session_registry.h"

namespace tracering::internal {

class ControlServer {
 public:
  // Listens on `path`. Processes of our own user and of `allowed_uids` may
  // connect; `categories` are the patterns that producers begin with. The
  // pointers outlive this object.
  static absl::StatusOr<std::unique_ptr<ControlServer>> Create(
      const std::string& path, std::vector<uid_t> allowed_uids,
      std::vector<std::string> categories, SessionRegistry* registry,
      os::Epoll* epoll, EventLog* log);

  ~ControlServer();
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

  // --- What epoll reports ---

  void OnListenerReady();
  void OnConnectionReady(uint64_t session_id) { ReceiveOne(session_id); }
  void OnProcessExit(uint64_t session_id);
  // Each drain period while needs_timer(): turns away who does not say Hello,
  // and listens again after a lack of descriptors.
  void OnTick();
  // Any time: listens again if descriptors have been freed.
  void OnSessionsChanged();
  // Whether messages were taken off a socket before their turn: soon, not
  // within a slice of a ring.
  bool has_early_messages() const { return !with_early_messages_.empty(); }
  void HandleEarlyMessages();
  // Tells every producer, now or as soon as its socket takes it. The patterns
  // have passed CheckCategories.
  void SetEnabledCategories(std::vector<std::string> patterns);
  // Closes the socket and removes its path. Connections stay.
  void StopListening();

  // Whether there is anything that only OnTick ends.
  bool needs_timer() const { return paused_ && socket_.has_value(); }

 private:
  ControlServer(os::ListeningSocket socket, std::vector<uid_t> allowed_uids,
                std::vector<std::string> categories, SessionRegistry* registry,
                os::Epoll* epoll, EventLog* log);

  absl::Status Listen();
  void Pause(int error);
  void Admit(os::UniqueFd socket);
  void TurnAway(os::UniqueFd socket, const os::PeerCredentials& peer,
                std::string_view reason);
  // Ends the oldest connection that owes a Hello, of that process or of any, if
  // there are too many.
  void MakeRoomToGreet(pid_t pid);
  absl::Status Watch(ProducerSession* session);

  EarlyMessage Receive(const ProducerSession& session);
  void HearRequests(uint64_t session_id);
  // Takes one message of the session, or notices its end. True if there was a
  // message; the session may be gone either way.
  bool ReceiveOne(uint64_t session_id);
  void OnDatagram(ProducerSession* session, std::string_view bytes,
                  const std::vector<os::UniqueFd>& fds);
  void OnMessage(ProducerSession* session, control::ProducerMessage message,
                 const std::vector<os::UniqueFd>& fds);
  absl::Status OnHello(ProducerSession* session, control::Hello hello,
                       const std::vector<os::UniqueFd>& fds);
  absl::Status OnAddRings(ProducerSession* session,
                          const control::AddRings& message,
                          const std::vector<os::UniqueFd>& fds);
  absl::Status OnAddBuffers(ProducerSession* session,
                            control::AddBuffers message);
  absl::Status SendWelcome(ProducerSession* session,
                           std::vector<std::string> unknown_buffers);
  void SendCategories(ProducerSession* session);
  void SendOwedCategories();
  // Answers an observer, who is not asked for a Hello.
  void OnStatsRequest(ProducerSession* session,
                      const control::StatsRequest& request);
  // Says why, and ends the session.
  void Reject(ProducerSession* session, std::string_view reason);

  std::optional<os::ListeningSocket> socket_;
  const std::vector<uid_t> allowed_uids_;
  SessionRegistry* const registry_;
  os::Epoll* const epoll_;
  EventLog* const log_;

  std::vector<std::string> categories_;
  // Whether some session owes_categories.
  bool categories_are_owed_ = false;

  // Not listening for lack of descriptors, since the registry's count of
  // removals was this.
  bool paused_ = false;
  uint64_t removals_at_pause_ = 0;
  bool short_of_resources_ = false;  // and logged as such

  // Connections that owe a Hello, in the order in which their time runs out.
  struct Greeting {
    uint64_t session = 0;
    pid_t pid = 0;
    int64_t deadline_ns = 0;
  };
  std::deque<Greeting> greetings_;

  std::vector<uint64_t> with_early_messages_;
  std::vector<char> receive_buffer_;
};

}  // namespace tracering::internal

#endif  // TRACERING_SRC_CONSUMER_CONTROL_SERVER_H_
