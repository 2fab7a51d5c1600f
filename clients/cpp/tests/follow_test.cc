// follow() against a server that cuts, waits and refuses.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "details.h"
#include "server.h"

namespace {

namespace v1 = turnwire::v1;
using grpc::StatusCode;
using testing_server::Server;
using testing_server::Stream;
using testing_server::until;
using turnwire::milliseconds;
using turnwire::Updates;

const grpc::Status kGone(StatusCode::UNAVAILABLE, "gone");
const turnwire::Resume kQuick{3, milliseconds(1), milliseconds(2)};
const turnwire::Resume kNever{3, std::chrono::hours(1), std::chrono::hours(1)};

std::vector<std::int64_t> numbers(Updates updates) {
  std::vector<std::int64_t> seen;
  for (const turnwire::Update& update : updates) {
    for (const v1::RunEvent& event : update.events) seen.push_back(event.sequence());
  }
  return seen;
}

TEST(Follow, AStreamThatIsCutIsWatchedFromWhereItStopped) {
  Server server;
  server.then({events::started(), events::text(2, "a")}, kGone);
  server.then({events::text(2, "a"), events::text(3, "b")});  // OK without an end is a cut as well
  server.then({events::text(4, "c"), events::finished(5)});
  const auto seen = numbers(server.client("secret").follow(turnwire::prompt("Go"), {{}, kQuick, {}}));
  EXPECT_EQ(seen, (std::vector<std::int64_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(server.tokens(), std::vector<std::string>(3, "Bearer secret"));
  ASSERT_EQ(server.watches().size(), 2U);
  EXPECT_EQ(server.watches()[0].run_id(), "run_1");
  EXPECT_EQ(server.watches()[0].after().sequence(), 2);
  EXPECT_EQ(server.watches()[1].after().sequence(), 3);
}

TEST(Follow, ATurnThatNeverBeganIsSentAgainAsTheSame) {
  Server server;
  server.then({}, kGone);
  server.then({events::started(), events::finished(2)});
  EXPECT_EQ(numbers(server.client().follow(turnwire::prompt("Go"), {{}, kQuick, {}})).size(), 2U);
  ASSERT_EQ(server.turns().size(), 2U);
  EXPECT_EQ(server.turns()[0].turn().request_id(), server.turns()[1].turn().request_id());
}

TEST(Follow, ARefusalIsThrownAndNothingComesAfterIt) {
  Server server;
  server.then({}, details::refusal(StatusCode::NOT_FOUND, "no agent", "AGENT_NOT_FOUND"));
  Updates updates = server.client().follow(turnwire::prompt("Go"));
  try {
    updates.next();
    FAIL() << "it was refused";
  } catch (const turnwire::Error& error) {
    EXPECT_EQ(error.reason(), "AGENT_NOT_FOUND");
  }
  EXPECT_FALSE(updates.next());
  EXPECT_EQ(server.turns().size(), 1U);
}

TEST(Follow, AfterTheAttemptsTheStreamIsLostWithThePlaceToGoOnFrom) {
  Server server;
  server.then({events::started(), events::text(2, "a")}, kGone);
  for (int attempt = 0; attempt < kQuick.attempts; ++attempt) server.then({}, kGone);
  Updates updates = server.client().follow(turnwire::prompt("Go"), {{}, kQuick, {}});
  EXPECT_TRUE(updates.next());
  try {
    updates.next();
    FAIL() << "the server was gone";
  } catch (const turnwire::StreamLost& lost) {
    EXPECT_EQ(lost.run_id(), "run_1");
    EXPECT_EQ(lost.cursor().sequence(), 2);
  }
}

TEST(Follow, ARewindIsPassedOn) {
  Server server;
  server.then({events::started(), events::text(2, "lost")}, kGone);
  server.then([](const Stream& stream) {
    turnwire::Frame frame = events::frame({events::text(2, "kept"), events::finished(3)}, 2);
    frame.rewind_to = 1;
    stream.write(frame);
    return grpc::Status::OK;
  });
  Updates updates = server.client().follow(turnwire::prompt("Go"), {{}, kQuick, {}});
  EXPECT_FALSE(updates.next()->rewind_to);
  const auto second = updates.next();
  EXPECT_EQ(second->rewind_to, 1);
  EXPECT_EQ(second->cursor.epoch(), 2);
  EXPECT_FALSE(updates.next());
}

TEST(Follow, AReadThatWaitsEndsWhenItsTokenIsAskedToStop) {
  Server server;
  server.then([](const Stream& stream) { return stream.hang(); });
  std::stop_source stop;
  Updates updates = server.client().follow(turnwire::prompt("Go"), {{}, kQuick, stop.get_token()});
  std::jthread reader([&] { EXPECT_THROW(updates.next(), turnwire::Cancelled); });
  until([&] { return server.turns().size() == 1; });
  stop.request_stop();
  reader.join();
  until([&] { return server.left() == 1; });
  EXPECT_FALSE(updates.next());
}

TEST(Follow, WhoLeavesTheLoopCancelsTheCall) {
  Server server;
  server.then([](const Stream& stream) {
    stream.send({events::started()});
    return stream.hang();
  });
  for (const turnwire::Update& update : server.client().follow(turnwire::prompt("Go"))) {
    EXPECT_EQ(update.events.size(), 1U);
    break;
  }
  until([&] { return server.left() == 1; });
}

TEST(Follow, AStopEndsTheTimeBetweenTwoAttempts) {
  Server server;
  server.then({}, kGone);
  std::stop_source stop;
  Updates updates = server.client().follow(turnwire::prompt("Go"), {{}, kNever, stop.get_token()});
  std::jthread reader([&] { EXPECT_THROW(updates.next(), turnwire::Cancelled); });
  until([&] { return !server.turns().empty(); });
  stop.request_stop();
}

TEST(Follow, ADeadlineEndsTheTimeBetweenTwoAttempts) {
  Server server;
  server.then({}, kGone);
  Updates updates = server.client().follow(turnwire::prompt("Go"), {milliseconds(200), kNever, {}});
  EXPECT_THROW(updates.next(), turnwire::DeadlineExceeded);
}

TEST(Follow, ADeadlineIsThatOfTheCall) {
  Server server;
  server.then([](const Stream& stream) { return stream.hang(); });
  Updates updates = server.client().follow(turnwire::prompt("Go"), {milliseconds(200), kQuick, {}});
  EXPECT_THROW(updates.next(), turnwire::DeadlineExceeded);
  until([&] { return server.left() == 1; });
}

TEST(Follow, ATimeTooLongForAClockIsNoDeadline) {
  Server server;
  server.then({events::started(), events::finished(2)});
  EXPECT_EQ(numbers(server.client().follow(turnwire::prompt("Go"), {milliseconds::max(), kQuick, {}})).size(), 2U);
}

}  // namespace
