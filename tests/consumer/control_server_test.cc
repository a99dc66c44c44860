// The control socket as peers meet it: admission, attach, refusals, and how
// the end of a producer is noticed. One consumer with its own thread, and
// clients that say whatever the test wants.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "tests/consumer/fed_ring.h"
#include "tests/consumer/raw_client.h"
#include "tests/support/child_process.h"
#include "tests/support/eventually.h"
#include "tests/support/temp_dir.h"
#include "tracering/consumer.h"
#include "tracering/service_stats.h"

namespace tracering {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::ChildProcess;
using test::FedRing;
using test::HelloFor;
using test::RawClient;
using test::RingImage;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ControlServerTest : public ::testing::Test {
 protected:
  ControlServerTest() {
    options_.socket_path = directory_.Path("socket");
    options_.buffers = {{"main", 1 << 20, FillPolicy::kRing},
                        {"other", 1 << 20, FillPolicy::kRing}};
    options_.drain_period = milliseconds(10);
  }
  ~ControlServerTest() override {
    consumer_ = nullptr;
    EXPECT_TRUE(directory_.IsEmpty()) << "the socket was left behind";
  }

  void StartConsumer() {
    absl::StatusOr<std::unique_ptr<Consumer>> consumer =
        Consumer::Create(options_);
    ASSERT_TRUE(consumer.ok()) << consumer.status();
    consumer_ = *std::move(consumer);
    ASSERT_TRUE(consumer_->Start().ok());
  }

  // Waits for what the consumer's thread is about to do anyway.
  bool Await(const std::function<bool(const ConsumerStats&)>& condition) {
    return test::Eventually(
        [this, &condition] { return condition(consumer_->stats()); });
  }
  bool AwaitNobody() {
    return Await(
        [](const ConsumerStats& s) { return s.producers_connected == 0; });
  }

  const std::string& path() const { return options_.socket_path; }

  const test::TempDir directory_;
  ConsumerOptions options_;
  std::unique_ptr<Consumer> consumer_;
};

TEST_F(ControlServerTest, EnabledCategoriesReachProducersNowAndLater) {
  options_.enabled_categories = {"net", "-x*"};
  StartConsumer();
  FedRing ring;
  RawClient client(path());
  client.Send(HelloFor({&ring}), {ring.image().fd()});
  const auto welcome = client.ReceiveWelcome();
  ASSERT_TRUE(welcome.has_value());
  EXPECT_THAT(welcome->enabled_categories, ElementsAre("net", "-x*"));

  // More than fit into the queue of somebody who does not read.
  const std::string pattern(control::kMaxNameSize, 'p');
  const std::vector<std::string> many(100, pattern);
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(consumer_->SetEnabledCategories(many).ok());
  }
  ASSERT_TRUE(consumer_->SetEnabledCategories({"last"}).ok());
  for (;;) {
    const auto message = client.Receive();
    ASSERT_TRUE(message.has_value());
    const auto* set = std::get_if<control::SetEnabled>(&*message);
    ASSERT_NE(set, nullptr);
    if (set->patterns == std::vector<std::string>{"last"}) break;
    EXPECT_EQ(set->patterns, many);
  }

  for (const auto& wrong : {std::vector<std::string>{""},
                            {std::string(256, 'p')},
                            std::vector<std::string>(1025, "p"),
                            std::vector<std::string>(200, pattern)}) {
    EXPECT_EQ(consumer_->SetEnabledCategories(wrong).code(),
              absl::StatusCode::kInvalidArgument);
    ConsumerOptions options = options_;
    options.enabled_categories = wrong;
    options.socket_path.clear();
    EXPECT_EQ(Consumer::Create(options).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST_F(ControlServerTest, WelcomesAProducerAndReadsItsRings) {
  StartConsumer();
  FedRing shared;
  FedRing own;
  shared.Publish(1, 3);
  RawClient client(path());
  control::Hello hello = HelloFor({&shared, &own});
  hello.buffers.push_back({3, "no such buffer"});
  client.Send(hello, {shared.image().fd(), own.image().fd()});
  const auto welcome = client.ReceiveWelcome();
  ASSERT_TRUE(welcome.has_value());
  EXPECT_EQ(welcome->abi_version, abi::kAbiVersion);
  EXPECT_THAT(welcome->unknown_buffers, ElementsAre("no such buffer"));
  ASSERT_TRUE(client.event_fd().valid());
  EXPECT_NE(fcntl(client.event_fd().get(), F_GETFL) & O_NONBLOCK, 0);

  own.Publish(1, 2, 2);
  ASSERT_EQ(eventfd_write(client.event_fd().get(), 1), 0);
  EXPECT_TRUE(
      Await([](const ConsumerStats& s) { return s.packets.delivered == 5; }));
  const ConsumerStats stats = consumer_->stats();
  ASSERT_EQ(stats.producers.size(), 1u);
  EXPECT_EQ(stats.producers[0].name, "raw client");
  EXPECT_EQ(stats.producers[0].pid, getpid());
  EXPECT_EQ(stats.producers[0].uid, geteuid());
  EXPECT_EQ(stats.producers[0].rings.size(), 2u);
  EXPECT_EQ(stats.buffers[1].written_packets, 2u);
}

TEST_F(ControlServerTest, BufferThatDoesNotExistIsLoggedOnceByItsName) {
  std::mutex mutex;
  std::vector<std::string> lines;
  options_.log = [&](std::string_view line) {
    const std::lock_guard<std::mutex> lock(mutex);
    if (line.find("buffer") != std::string_view::npos) {
      lines.emplace_back(line);
    }
  };
  StartConsumer();
  FedRing ring;
  RawClient client(path());
  client.Send(HelloFor({&ring}), {ring.image().fd()});
  ASSERT_TRUE(client.ReceiveWelcome().has_value());
  client.Send(control::AddBuffers{{{20, "nowhere"}}});
  client.Send(control::AddBuffers{{{21, "elsewhere"}, {22, "main"}}});
  ring.Publish(1, 1, 22);
  EXPECT_TRUE(
      Await([](const ConsumerStats& s) { return s.packets.delivered == 1; }));
  consumer_->Stop();
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines[0], HasSubstr("raw client"));
  EXPECT_THAT(lines[0], HasSubstr("'nowhere', which does not exist"));
}

// The producer's Flush relies on it: it signals and waits for read_pos.
TEST_F(ControlServerTest, SignalDrainsBelowTheThreshold) {
  options_.drain_period = std::chrono::hours(1);
  StartConsumer();
  FedRing ring;
  RawClient client(path());
  client.Send(HelloFor({&ring}), {ring.image().fd()});
  ASSERT_TRUE(client.ReceiveWelcome().has_value());
  for (int i = 1; i <= 100; ++i) {
    const uint32_t position = ring.image().write_pos();
    ring.Publish(1, 1);
    ASSERT_EQ(eventfd_write(client.event_fd().get(), 1), 0);
    while (ring.image().read_pos() != position + 1) std::this_thread::yield();
  }
}

TEST_F(ControlServerTest, EventFdThatIsFullReadOrBlockingDoesNoHarm) {
  StartConsumer();
  FedRing ring;
  RawClient client(path());
  client.Send(HelloFor({&ring}), {ring.image().fd()});
  ASSERT_TRUE(client.ReceiveWelcome().has_value());
  const int event_fd = client.event_fd().get();
  ASSERT_EQ(eventfd_write(event_fd, ~uint64_t{0} - 1), 0);
  ASSERT_EQ(fcntl(event_fd, F_SETFL, 0), 0);  // O_NONBLOCK is off
  uint64_t value = 0;
  ASSERT_EQ(eventfd_read(event_fd, &value), 0);
  client.Send(control::AddBuffers{{{4, "main"}}});
  ring.Publish(1, 2, 4);
  EXPECT_TRUE(
      Await([](const ConsumerStats& s) { return s.packets.delivered == 2; }));
  EXPECT_TRUE(consumer_->Flush(seconds(30)).complete);
}

TEST_F(ControlServerTest, RingsAndBuffersCanBeAddedLater) {
  StartConsumer();
  RawClient client(path());
  control::Hello hello = HelloFor({});
  hello.buffers.clear();
  client.Send(hello);
  ASSERT_TRUE(client.ReceiveWelcome().has_value());
  FedRing ring;
  control::AddRings rings;
  rings.rings = HelloFor({&ring}).rings;
  client.Send(control::AddBuffers{{{5, "other"}}});
  client.Send(rings, {ring.image().fd()});
  ring.Publish(1, 2, 5);
  EXPECT_TRUE(Await([](const ConsumerStats& s) {
    return s.buffers[1].written_packets == 2;
  }));
}

// A producer names a buffer and traces into it at once. Nobody has looked at
// its socket when the packets are drained.
TEST_F(ControlServerTest, PacketsThatOvertakeTheNameOfTheirBufferAreNotLost) {
  options_.drain_period = std::chrono::hours(1);
  absl::StatusOr<std::unique_ptr<Consumer>> consumer =
      Consumer::Create(options_);
  ASSERT_TRUE(consumer.ok()) << consumer.status();
  consumer_ = *std::move(consumer);
  FedRing ring;
  FedRing later;
  RawClient client(path());
  client.Send(HelloFor({&ring}), {ring.image().fd()});
  EXPECT_TRUE(test::Eventually([&] {
    consumer_->ProcessReady();
    return consumer_->stats().producers_connected == 1;
  }));

  control::AddRings rings;
  rings.rings = HelloFor({&later}).rings;
  client.Send(rings, {later.image().fd()});  // keeps its place in the queue
  client.Send(control::AddBuffers{{{20, "main"}, {21, "no such buffer"}}});
  client.Send(control::AddBuffers{{{22, "other"}}});
  ring.Publish(1, 2, 20);
  ring.Publish(2, 3, 22);
  ring.Publish(3, 4, 21);
  ring.Publish(4, 5, 23);  // never named
  later.Publish(1, 6);
  EXPECT_TRUE(consumer_->Flush(seconds(30)).complete);
  EXPECT_EQ(consumer_->stats().packets.delivered, 5u);
  EXPECT_EQ(consumer_->stats().packets.lost[LossCause::kUnknownBuffer], 9u);
  EXPECT_TRUE(test::Eventually([&] {
    consumer_->ProcessReady();
    return consumer_->stats().packets.delivered == 11;
  }));
  client.Send(control::Goodbye());
  ring.Publish(5, 1, 99);  // the goodbye is heard early, and not lost
  consumer_->Flush(seconds(30));
  EXPECT_TRUE(test::Eventually([&] {
    consumer_->ProcessReady();
    return consumer_->stats().producers_connected == 0;
  }));
}

// A peer that names buffers faster than they are heard must not hold everybody
// up. Here all of it is there before anybody looks.
TEST_F(ControlServerTest, RequestsThatAreHeardInOneSliceAreLimited) {
  options_.drain_period = std::chrono::hours(1);
  absl::StatusOr<std::unique_ptr<Consumer>> consumer =
      Consumer::Create(options_);
  ASSERT_TRUE(consumer.ok()) << consumer.status();
  consumer_ = *std::move(consumer);
  FedRing ring;
  RawClient client(path());
  client.Send(HelloFor({&ring}), {ring.image().fd()});
  EXPECT_TRUE(test::Eventually([&] {
    consumer_->ProcessReady();
    return consumer_->stats().producers_connected == 1;
  }));
  client.GrowQueue();
  constexpr uint16_t kRequests = 600;
  for (uint16_t i = 1; i <= kRequests; ++i) {
    const auto id = static_cast<uint16_t>(100 + i);
    if (!client.TrySend(control::AddBuffers{{{id, "main"}}})) {
      GTEST_SKIP() << "a socket's queue ends after " << i - 1 << " requests";
    }
  }
  ring.Publish(1, 1, 100 + kRequests);
  EXPECT_TRUE(consumer_->Flush(seconds(30)).complete);
  EXPECT_EQ(consumer_->stats().packets.lost[LossCause::kUnknownBuffer], 1u);
  // The rest has not been forgotten.
  ring.Publish(2, 1, 100 + kRequests);
  EXPECT_TRUE(consumer_->Flush(seconds(30)).complete);
  EXPECT_EQ(consumer_->stats().packets.delivered, 1u);
}

TEST_F(ControlServerTest, WhatBreaksARuleIsRejectedWithTheReason) {
  options_.limits.rings_per_producer = 2;
  StartConsumer();
  FedRing ring;
  FedRing second;
  FedRing third;
  const RingImage unsealed = RingImage::InMemfd({64, 4096, 0, true}, 0);
  const int fd = ring.image().fd();
  struct Case {
    std::string text;
    std::function<void(RawClient*)> say;
  };
  const auto hello = [&](std::vector<FedRing*> rings,
                         const std::function<void(control::Hello*)>& spoil,
                         std::vector<int> fds) {
    return [=](RawClient* client) {
      control::Hello message = HelloFor(rings);
      spoil(&message);
      client->Send(message, fds);
    };
  };
  const auto as_is = [](control::Hello*) {};
  const std::vector<Case> cases = {
      {"first message must be Hello",
       [](RawClient* c) { c->Send(control::Goodbye()); }},
      {"varint", [](RawClient* c) { c->SendBytes("\xff\xff\xff"); }},
      {"exceeds 65536 bytes",
       [](RawClient* c) { c->SendBytes(std::string(65537, 'x')); }},
      {"carries 0 descriptors; 1 belong with it", hello({&ring}, as_is, {})},
      {"carries 2 descriptors; 1 belong with it",
       hello({&ring}, as_is, {fd, fd})},
      {"rings are of version 2", hello({&ring},
                                       [](control::Hello* h) {
                                         h->abi_version_max =
                                             abi::kAbiVersion + 1;
                                       },
                                       {fd})},
      {"power of two",
       hello({&ring}, [](control::Hello* h) { h->rings[0].chunk_size = 257; },
             {fd})},
      {"must have",
       hello({&ring}, [](control::Hello* h) { h->rings[0].num_chunks *= 2; },
             {fd})},
      {"sealed against", hello({&ring}, as_is, {unsealed.fd()})},
      {"same memory", hello({&ring, &ring}, as_is, {fd, fd})},
      {"3 rings; the limit for one producer is 2",
       hello({&ring, &second, &third}, as_is,
             {fd, second.image().fd(), third.image().fd()})},
      {"was given another name", hello({&ring},
                                       [](control::Hello* h) {
                                         h->buffers.push_back({1, "other"});
                                       },
                                       {fd})},
  };
  for (const Case& bad : cases) {
    RawClient client(path());
    bad.say(&client);
    EXPECT_THAT(client.ReceiveReject(), HasSubstr(bad.text));
  }
  EXPECT_TRUE(AwaitNobody());
  EXPECT_EQ(consumer_->stats().producers_seen, 0u);
  EXPECT_EQ(consumer_->stats().producers_refused, cases.size());
  // None of it stands in the way of a good one.
  RawClient client(path());
  client.Send(HelloFor({&ring}), {fd});
  EXPECT_TRUE(client.ReceiveWelcome().has_value());
}

TEST_F(ControlServerTest, ProtocolErrorAfterAttachKeepsWhatWasPublished) {
  StartConsumer();
  FedRing ring;
  RawClient client(path());
  client.Send(HelloFor({&ring}), {ring.image().fd()});
  ASSERT_TRUE(client.ReceiveWelcome().has_value());
  ring.Publish(1, 7);
  client.Send(HelloFor({}));
  EXPECT_EQ(client.ReceiveReject(), "Hello came twice");
  EXPECT_TRUE(AwaitNobody());
  EXPECT_EQ(consumer_->stats().packets.delivered, 7u);
}

TEST_F(ControlServerTest, UnknownMessagesAreIgnored) {
  StartConsumer();
  RawClient client(path());
  client.SendBytes(std::string("\x7a\x00", 2));  // field 15, empty
  client.Send(HelloFor({}));
  EXPECT_TRUE(client.ReceiveWelcome().has_value());
  client.Send(control::Trigger{"anything"});
  client.Send(control::Goodbye());
  EXPECT_TRUE(client.AwaitHangUp());
}

// Otherwise one connection could send any number of descriptors to close.
TEST_F(ControlServerTest, UnknownMessageWithDescriptorsIsRejected) {
  StartConsumer();
  FedRing ring;
  RawClient client(path());
  client.SendBytes(std::string("\x7a\x00", 2), {ring.image().fd()});
  EXPECT_EQ(client.ReceiveReject(),
            "a message carries 1 descriptors; 0 belong with it");
}

TEST_F(ControlServerTest, SilentConnectionIsTurnedAwayInTime) {
  StartConsumer();
  RawClient client(path());
  EXPECT_THAT(client.ReceiveReject(), HasSubstr("no Hello came in time"));
}

// Idle connections of one process could keep all others out.
TEST_F(ControlServerTest, OldestOfTooManySilentConnectionsOfAProcessGoes) {
  StartConsumer();
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 17; ++i) {
    clients.push_back(std::make_unique<RawClient>(path()));
  }
  EXPECT_EQ(clients[0]->ReceiveReject(), "too many connections owe a Hello");
  for (int i = 1; i < 17; ++i) {
    clients[static_cast<size_t>(i)]->Send(HelloFor({}));
    EXPECT_TRUE(clients[static_cast<size_t>(i)]->ReceiveWelcome().has_value());
  }
}

TEST_F(ControlServerTest, OldestOfTooManySilentConnectionsGoes) {
  StartConsumer();
  constexpr int kProcesses = 5;
  constexpr int kEach = 13;  // one more than may be silent
  std::vector<ChildProcess> children;
  for (int i = 0; i < kProcesses; ++i) {
    children.push_back(ChildProcess::Fork([&, i] {
      std::vector<std::unique_ptr<RawClient>> clients;
      for (int k = 0; k < kEach; ++k) {
        clients.push_back(std::make_unique<RawClient>(path()));
      }
      test::handshake::Report();
      if (i == 0) {
        return clients[0]->ReceiveReject() == "too many connections owe a Hello"
                   ? 0
                   : 1;
      }
      test::handshake::AwaitRelease();
      clients[0]->Send(HelloFor({}));
      return clients[0]->ReceiveWelcome().has_value() ? 0 : 2;
    }));
    ASSERT_TRUE(children.back().AwaitReport());
  }
  EXPECT_EQ(children[0].Wait()->code, 0);
  EXPECT_EQ(consumer_->stats().producers_refused, 1u);
  for (size_t i = 1; i < kProcesses; ++i) {
    children[i].Release();
    EXPECT_EQ(children[i].Wait()->code, 0);
  }
}

TEST_F(ControlServerTest, SocketIsClosedAfterTheLastAccessToTheRing) {
  StartConsumer();
  FedRing ring;
  RawClient client(path());
  client.Send(HelloFor({&ring}), {ring.image().fd()});
  ASSERT_TRUE(client.ReceiveWelcome().has_value());
  while (!ring.Full()) ring.Publish(1, 10);
  client.Send(control::Goodbye());
  ASSERT_TRUE(client.AwaitHangUp());
  // Nobody reads the ring any more, and all of it was taken.
  EXPECT_EQ(ring.image().read_pos(), ring.image().write_pos());
  EXPECT_EQ(consumer_->stats().packets.delivered, ring.attempted());
}

TEST_F(ControlServerTest, RingComesBackOverANewConnection) {
  StartConsumer();
  FedRing ring;
  RawClient first(path());
  first.Send(HelloFor({&ring}), {ring.image().fd()});
  ASSERT_TRUE(first.ReceiveWelcome().has_value());
  ring.Publish(1, 2);
  // The old connection has not even ended.
  RawClient second(path());
  second.Send(HelloFor({&ring}), {ring.image().fd()});
  ASSERT_TRUE(second.ReceiveWelcome().has_value());
  EXPECT_TRUE(first.AwaitHangUp());
  ring.Publish(1, 3);
  EXPECT_TRUE(
      Await([](const ConsumerStats& s) { return s.packets.delivered == 5; }));
  EXPECT_EQ(consumer_->stats().producers_connected, 1u);
  EXPECT_EQ(consumer_->stats().rings_stopped, 0u);
}

TEST_F(ControlServerTest, ProducerThatDiesAtOnceIsStillRead) {
  StartConsumer();
  FedRing ring;
  ring.Publish(1, 4);
  for (int i = 1; i <= 20; ++i) {
    ring.Publish(1, 1);
    ChildProcess child = ChildProcess::Fork([&] {
      RawClient client(path());
      client.Send(HelloFor({&ring}), {ring.image().fd()});
      return ::testing::Test::HasFailure() ? 1 : 0;
    });
    EXPECT_EQ(child.Wait()->code, 0);
    const uint64_t expected = 4 + static_cast<uint64_t>(i);
    EXPECT_TRUE(Await([&](const ConsumerStats& s) {
      return s.packets.delivered == expected;
    }));
  }
  EXPECT_TRUE(AwaitNobody());
}

// A forked child keeps the socket open: only the pidfd shows the death.
TEST_F(ControlServerTest, DeathShowsAlthoughAForkHoldsTheSocket) {
  StartConsumer();
  FedRing ring;
  ring.Publish(1, 3);
  ring.Publish(2, 1, 1, abi::kFlagContinuesOnNext);
  ChildProcess producer = ChildProcess::Fork([&] {
    RawClient client(path());
    client.Send(HelloFor({&ring}), {ring.image().fd()});
    if (!client.ReceiveWelcome().has_value()) return 1;
    const pid_t grandchild = fork();
    if (grandchild == 0) {
      test::handshake::AwaitRelease();
      _exit(0);
    }
    test::handshake::Report();
    raise(SIGKILL);
    return 0;
  });
  ASSERT_TRUE(producer.AwaitReport());
  EXPECT_TRUE(AwaitNobody());
  EXPECT_EQ(consumer_->stats().packets.delivered, 3u);
  EXPECT_EQ(consumer_->stats().packets.lost[LossCause::kReassemblyGap], 1u);
  producer.Release();
}

TEST_F(ControlServerTest, StaleSocketIsReplacedAndALiveOneRefused) {
  StartConsumer();
  const auto second = Consumer::Create(options_);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(path()));

  const std::string stale = directory_.Path("stale");
  ChildProcess dead = ChildProcess::Fork([&] {
    ConsumerOptions options = options_;
    options.socket_path = stale;
    const auto consumer = Consumer::Create(options);
    if (!consumer.ok()) return 1;
    raise(SIGKILL);
    return 0;
  });
  EXPECT_EQ(dead.Wait()->signal, SIGKILL);
  EXPECT_EQ(access(stale.c_str(), F_OK), 0);
  consumer_ = nullptr;
  EXPECT_NE(access(path().c_str(), F_OK), 0);
  options_.socket_path = stale;
  StartConsumer();
  RawClient client(stale);
  client.Send(HelloFor({}));
  EXPECT_TRUE(client.ReceiveWelcome().has_value());
}

TEST_F(ControlServerTest, ModeIsPrivateUnlessOthersAreAllowed) {
  StartConsumer();
  struct stat file {};
  ASSERT_EQ(stat(path().c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0600u);
  consumer_ = nullptr;
  options_.allowed_uids = {12345};
  StartConsumer();
  ASSERT_EQ(stat(path().c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0666u);
}

TEST_F(ControlServerTest, StrangersAreTurnedAwayUnlessAllowed) {
  if (geteuid() != 0) GTEST_SKIP() << "needs to become another user";
  constexpr uid_t kStranger = 54321;
  options_.allowed_uids = {kStranger};
  ASSERT_EQ(chmod(directory_.path().c_str(), 0755), 0);
  StartConsumer();
  const auto connect_as = [&](uid_t uid) {
    ChildProcess child = ChildProcess::Fork([&] {
      if (setresuid(uid, uid, uid) != 0) return 1;
      RawClient client(path());
      const std::string reason =
          uid == kStranger ? "" : fmt::format("user {} may not connect", uid);
      if (reason.empty()) {
        client.Send(HelloFor({}));
        return client.ReceiveWelcome().has_value() ? 0 : 2;
      }
      return client.ReceiveReject().find(reason) != std::string::npos ? 0 : 3;
    });
    return child.Wait()->code;
  };
  EXPECT_EQ(connect_as(kStranger), 0);
  EXPECT_EQ(connect_as(kStranger + 1), 0);
}

// Names and loads of programs are the business of the service's own user.
TEST_F(ControlServerTest, StrangersThatMayTraceGetNoStats) {
  if (geteuid() != 0) GTEST_SKIP() << "needs to become another user";
  constexpr uid_t kStranger = 54321;
  options_.allowed_uids = {kStranger};
  ASSERT_EQ(chmod(directory_.path().c_str(), 0755), 0);
  StartConsumer();
  ChildProcess child = ChildProcess::Fork([&] {
    if (setresuid(kStranger, kStranger, kStranger) != 0) return 1;
    const auto stats = QueryServiceStats(path(), seconds(30));
    return absl::IsPermissionDenied(stats.status()) ? 0 : 2;
  });
  EXPECT_EQ(child.Wait()->code, 0);
}

TEST_F(ControlServerTest, StatsComeInPagesAndAddUp) {
  constexpr size_t kProducers = 150;  // of more than one page
  std::vector<std::string> lines;
  std::mutex mutex;
  options_.log = [&](std::string_view line) {
    const std::lock_guard<std::mutex> lock(mutex);
    lines.emplace_back(line);
  };
  StartConsumer();
  FedRing ring;
  FedRing gone;
  gone.Publish(1, 7);
  {
    RawClient client(path());
    client.Send(HelloFor({&gone}), {gone.image().fd()});
    ASSERT_TRUE(client.ReceiveWelcome().has_value());
  }
  EXPECT_TRUE(AwaitNobody());
  ring.Publish(1, 3);
  ring.Lose(2, 5, LossCause::kRingFull);
  std::vector<std::unique_ptr<RawClient>> clients;
  for (size_t i = 0; i < kProducers; ++i) {
    clients.push_back(std::make_unique<RawClient>(path()));
    control::Hello hello = i == 0 ? HelloFor({&ring}) : HelloFor({});
    hello.process_name = std::string(250, 'n') + std::to_string(i);
    clients[i]->Send(hello, i == 0 ? std::vector<int>{ring.image().fd()}
                                   : std::vector<int>());
    ASSERT_TRUE(clients[i]->ReceiveWelcome().has_value());
  }
  EXPECT_TRUE(
      Await([](const ConsumerStats& s) { return s.packets.delivered == 10; }));
  // One line for each that came, and one for the first, which went.
  constexpr size_t kLines = kProducers + 2;
  const auto num_lines = [&] {
    const std::lock_guard<std::mutex> lock(mutex);
    return lines.size();
  };
  EXPECT_TRUE(
      Await([&](const ConsumerStats&) { return num_lines() == kLines; }));

  const auto stats = QueryServiceStats(path(), seconds(30));
  ASSERT_TRUE(stats.ok()) << stats.status();
  ASSERT_EQ(stats->producers.size(), kProducers);
  EXPECT_EQ(stats->producers_connected, kProducers);
  EXPECT_EQ(stats->producers_seen, kProducers + 1);
  EXPECT_EQ(stats->packets.delivered, 10u);
  EXPECT_EQ(stats->packets.lost[LossCause::kRingFull], 5u);
  const ProducerStats& first = stats->producers[0];
  EXPECT_EQ(first.name, std::string(250, 'n') + "0");
  EXPECT_EQ(first.pid, getpid());
  EXPECT_EQ(first.packets.delivered, 3u);
  ASSERT_EQ(first.rings.size(), 1u);
  EXPECT_EQ(first.rings[0].num_chunks, ring.image().geometry().num_chunks());
  EXPECT_EQ(stats->producers.back().name,
            std::string(250, 'n') + std::to_string(kProducers - 1));
  // An observer is no producer, and nothing to talk about.
  EXPECT_EQ(consumer_->stats().producers_connected, kProducers);
  EXPECT_EQ(num_lines(), kLines);
  consumer_ = nullptr;  // it calls back to what is in here
}

TEST_F(ControlServerTest, LackOfDescriptorsPausesTheListenerOnly) {
  std::atomic<int> pauses{0};
  options_.log = [&pauses](std::string_view line) {
    if (line.find("cannot take connections") != std::string::npos) ++pauses;
  };
  StartConsumer();
  FedRing ring;
  RawClient early(path());
  early.Send(HelloFor({&ring}), {ring.image().fd()});
  ASSERT_TRUE(early.ReceiveWelcome().has_value());
  ChildProcess late = ChildProcess::Fork([&] {
    test::handshake::AwaitRelease();
    RawClient client(path());
    client.Send(HelloFor({}));
    return client.ReceiveWelcome().has_value() ? 0 : 1;
  });

  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const int next = dup(0);
  ASSERT_GE(next, 0);
  close(next);
  const rlimit low{static_cast<rlim_t>(next), limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  late.Release();
  EXPECT_TRUE(Await([&](const ConsumerStats&) { return pauses == 1; }));
  // The rings are read as before.
  ring.Publish(1, 3);
  EXPECT_TRUE(
      Await([](const ConsumerStats& s) { return s.packets.delivered == 3; }));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(late.Wait()->code, 0);
  EXPECT_EQ(pauses, 1);
}

// Producers could take every descriptor, and leave none to save a trace with.
TEST_F(ControlServerTest, ProducersLeaveDescriptorsForFiles) {
  std::atomic<int> pauses{0};
  options_.log = [&pauses](std::string_view line) {
    if (line.find("cannot take connections") != std::string::npos) ++pauses;
  };
  StartConsumer();
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const int next = dup(0);
  ASSERT_GE(next, 0);
  close(next);
  ChildProcess many = ChildProcess::Fork([&] {
    test::handshake::AwaitRelease();
    std::vector<std::unique_ptr<RawClient>> clients;
    for (int i = 0; i < 100; ++i) {
      clients.push_back(std::make_unique<RawClient>(path()));
      clients.back()->Send(HelloFor({}));
    }
    test::handshake::AwaitRelease();
    return 0;
  });
  const rlimit low{static_cast<rlim_t>(next) + 150, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  many.Release();
  EXPECT_TRUE(Await([&](const ConsumerStats&) { return pauses > 0; }));
  const std::string file = directory_.Path("trace");
  EXPECT_TRUE(consumer_->WriteTrace(file).ok());
  std::vector<os::UniqueFd> free;
  for (int i = 0; i < 30; ++i) free.emplace_back(dup(0));
  EXPECT_TRUE(free.back().valid());
  unlink(file.c_str());
  free.clear();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_TRUE(Await(
      [](const ConsumerStats& s) { return s.producers_connected == 100; }));
  many.Release();
  EXPECT_EQ(many.Wait()->code, 0);
}

TEST_F(ControlServerTest, ManyConnectionsAtOnceAreAllServed) {
  StartConsumer();
  // Well below the usual limit of 1024 descriptors, and far above what one
  // round of the loop takes.
  constexpr int kClients = 100;
  std::vector<std::unique_ptr<RawClient>> clients;
  std::vector<std::unique_ptr<FedRing>> rings;
  for (int i = 0; i < kClients; ++i) {
    rings.push_back(
        std::make_unique<FedRing>(test::RingImageOptions{2, 4096, 0, true}));
    rings.back()->Publish(1, 1);
    clients.push_back(std::make_unique<RawClient>(path()));
    clients.back()->Send(HelloFor({rings.back().get()}),
                         {rings.back()->image().fd()});
  }
  for (const auto& client : clients) {
    EXPECT_TRUE(client->ReceiveWelcome().has_value());
  }
  EXPECT_TRUE(Await(
      [](const ConsumerStats& s) { return s.packets.delivered == kClients; }));
  EXPECT_EQ(consumer_->stats().producers_connected,
            static_cast<uint64_t>(kClients));
  clients.clear();
  EXPECT_TRUE(AwaitNobody());
}

TEST_F(ControlServerTest, StopTakesTheRestAndHangsUp) {
  StartConsumer();
  FedRing ring;
  RawClient client(path());
  client.Send(HelloFor({&ring}), {ring.image().fd()});
  ASSERT_TRUE(client.ReceiveWelcome().has_value());
  ring.Publish(1, 5);
  consumer_->Stop();
  EXPECT_TRUE(client.AwaitHangUp());
  EXPECT_EQ(consumer_->stats().packets.delivered, 5u);
  EXPECT_NE(access(path().c_str(), F_OK), 0);
}

}  // namespace
}  // namespace tracering
