// The rules of resuming, without a network.
#include "turnwire/cursor.h"

#include <gtest/gtest.h>

#include <set>

#include "events.h"
#include "turnwire/errors.h"

namespace {

namespace v1 = turnwire::v1;
using events::frame;
using grpc::StatusCode;
using turnwire::milliseconds;
using turnwire::Reader;

const turnwire::Resume kQuick{2, milliseconds(100), milliseconds(1000)};
const grpc::Status kGone(StatusCode::UNAVAILABLE, "gone");

v1::RunTurnRequest turn_of(const Reader& reader) {
  return std::get<v1::RunTurnRequest>(reader.request());
}
v1::WatchRunRequest watch_of(const Reader& reader) {
  return std::get<v1::WatchRunRequest>(reader.request());
}

Reader turn() {
  return Reader(v1::RunTurnRequest(), kQuick);
}

v1::RunTurnRequest closing() {
  v1::RunTurnRequest request;
  request.set_stream_detail(v1::STREAM_DETAIL_MILESTONES);
  request.set_on_wait(v1::ON_WAIT_CLOSE);
  return request;
}

TEST(Cursor, ATurnIsSentAgainWithTheSameRequestId) {
  Reader reader = turn();
  const std::string made = turn_of(reader).turn().request_id();
  EXPECT_EQ(made.size(), 36U);
  EXPECT_EQ(made[14], '4');
  EXPECT_NE(made, turn_of(turn()).turn().request_id());
  reader.failed(kGone);
  EXPECT_EQ(turn_of(reader).turn().request_id(), made);
}

TEST(Cursor, ARequestIdOfTheCallerIsKept) {
  v1::RunTurnRequest request;
  request.mutable_turn()->set_request_id("mine");
  EXPECT_EQ(turn_of(Reader(request, kQuick)).turn().request_id(), "mine");
}

TEST(Cursor, OnceTheRunIsKnownItIsWatchedFromTheCursorAsItWasAskedFor) {
  Reader reader(closing(), kQuick);
  reader.apply(frame({events::started(), events::text(2, "a")}, 3));
  const v1::WatchRunRequest watch = watch_of(reader);
  EXPECT_EQ(watch.run_id(), "run_1");
  EXPECT_EQ(watch.after().epoch(), 3);
  EXPECT_EQ(watch.after().sequence(), 2);
  EXPECT_EQ(watch.stream_detail(), v1::STREAM_DETAIL_MILESTONES);
  EXPECT_EQ(watch.on_wait(), v1::ON_WAIT_CLOSE);
}

TEST(Cursor, ATurnThatAttachesGoesOnAfterItsCursor) {
  v1::RunTurnRequest request;
  request.mutable_after()->set_epoch(2);
  request.mutable_after()->set_sequence(5);
  Reader reader(request, kQuick);
  reader.apply({{}, 2, 7, {}});
  EXPECT_EQ(turn_of(reader).after().sequence(), 7);
}

TEST(Cursor, EventsThatTheReaderHasAreDroppedAndHeartbeatsBringNothing) {
  Reader reader = turn();
  reader.apply(frame({events::started(), events::text(2, "a")}));
  const auto update = reader.apply(frame({events::text(2, "a"), events::text(3, "b")}));
  ASSERT_TRUE(update && update->events.size() == 1);
  EXPECT_EQ(update->events[0].sequence(), 3);
  EXPECT_FALSE(reader.apply({{}, 2, 9, {}}));
  EXPECT_EQ(reader.cursor().sequence(), 9) << "a stream with fewer details skips numbers";
  EXPECT_EQ(reader.cursor().epoch(), 2);
}

TEST(Cursor, ARewindIsToldAndTheEventsThatTookThePlaceAreNew) {
  Reader reader = turn();
  reader.apply(frame({events::started(), events::text(2, "lost"), events::text(3, "lost")}));
  turnwire::Frame taken_over = frame({events::text(2, "kept")}, 2);
  taken_over.rewind_to = 1;
  const auto update = reader.apply(taken_over);
  ASSERT_TRUE(update && update->rewind_to == 1 && update->events.size() == 1);
  EXPECT_EQ(update->cursor.epoch(), 2);
  EXPECT_EQ(update->cursor.sequence(), 2);
  const auto bare = reader.apply({{}, 3, 1, 1});
  ASSERT_TRUE(bare && bare->rewind_to == 1 && bare->events.empty());
  EXPECT_EQ(reader.cursor().sequence(), 1);
}

TEST(Cursor, AnEventOfALaterContractIsKeptAndMovesTheCursor) {
  Reader reader = turn();
  const auto update = reader.apply(frame({events::started(), events::unknown(2)}));
  ASSERT_TRUE(update && update->events.size() == 2);
  EXPECT_EQ(update->cursor.sequence(), 2);
}

TEST(Cursor, OkIsTheProperEndOnlyAfterTheLastEventOrAWaitThatCloses) {
  const auto ends = [](const v1::RunTurnRequest& request, events::Events of) {
    Reader reader(request, kQuick);
    if (!of.empty()) reader.apply(frame(std::move(of)));
    return !reader.cut();
  };
  const v1::RunEvent waits = events::waiting(2, {{"a", "x"}});
  EXPECT_TRUE(ends({}, {events::started(), events::finished(2)}));
  EXPECT_FALSE(ends({}, {events::started()}));
  EXPECT_FALSE(ends({}, {})) << "it has not begun";
  EXPECT_TRUE(ends(closing(), {events::started(), waits, events::text(3, "meanwhile")}));
  EXPECT_FALSE(ends({}, {events::started(), waits})) << "it was to stay open";
  EXPECT_FALSE(ends(closing(), {events::started(), waits, events::resumed(3)}));
}

TEST(Cursor, AReaderBehindTheLastEventEndsWithTheCall) {
  v1::WatchRunRequest request;
  request.set_run_id("run_1");
  request.mutable_after()->set_sequence(7);
  Reader reader(request, kQuick);
  EXPECT_FALSE(reader.cut());
  reader.apply({{}, 1, 7, {}});
  EXPECT_TRUE(reader.cut()) << "a heartbeat says that the run goes on";
}

TEST(Cursor, WhatTheWaySaysOfABrokenConnectionIsACutAndWhatTheServerSaysIsNot) {
  const std::set<StatusCode> on_the_way{StatusCode::UNAVAILABLE, StatusCode::CANCELLED, StatusCode::INTERNAL,
                                        StatusCode::UNKNOWN};
  const auto is_cut = [](const grpc::Status& status) {
    Reader reader = turn();
    try {
      reader.failed(status);
      return true;
    } catch (const turnwire::Error& error) {
      EXPECT_EQ(error.code(), status.error_code());
    } catch (const turnwire::DeadlineExceeded&) {
      EXPECT_EQ(status.error_code(), StatusCode::DEADLINE_EXCEEDED);
    }
    return false;
  };
  for (int number = 1; number <= 16; ++number) {
    const auto code = static_cast<StatusCode>(number);
    EXPECT_EQ(is_cut({code, "no"}), on_the_way.contains(code)) << turnwire::code_name(code);
    EXPECT_EQ(is_cut({code, "no", "\x08\x01"}), code == StatusCode::UNAVAILABLE) << turnwire::code_name(code);
  }
}

TEST(Cursor, AfterTheAttemptsTheStreamIsLostUnlessSomethingCameBetween) {
  Reader reader = turn();
  reader.apply(frame({events::started()}));
  for (int round = 2; round < 5; ++round) {
    reader.failed(kGone);
    reader.cut();
    reader.apply(frame({events::text(round, "more")}));
  }
  reader.failed(kGone);
  reader.apply({{}, 1, 4, {}});  // a heartbeat that was there before brings nothing
  reader.failed(kGone);
  try {
    reader.failed(kGone);
    FAIL() << "no attempt is left";
  } catch (const turnwire::StreamLost& lost) {
    EXPECT_EQ(lost.run_id(), "run_1");
    EXPECT_EQ(lost.cursor().sequence(), 4);
    EXPECT_STREQ(lost.what(), "run run_1: cut after event 4 and not resumed (UNAVAILABLE: gone)");
  }
}

TEST(Cursor, ATurnThatNeverBeganIsLostWithoutARun) {
  Reader reader(v1::RunTurnRequest(), {0, {}, {}});
  try {
    reader.cut();
    FAIL() << "no attempt is allowed";
  } catch (const turnwire::StreamLost& lost) {
    EXPECT_EQ(lost.run_id(), "");
    EXPECT_STREQ(lost.what(), "no stream was begun: the server could not be reached");
  }
}

TEST(Cursor, DelaysDoubleUpToTheLongestAndAreSpread) {
  const std::vector<std::pair<int, int>> longest{{1, 100}, {2, 200}, {4, 800}, {5, 1000}, {2'000'000'000, 1000}};
  for (const auto& [failures, ceiling] : longest) {
    std::set<milliseconds> seen;
    for (int i = 0; i < 100; ++i) seen.insert(kQuick.delay(failures));
    EXPECT_LE(seen.rbegin()->count(), ceiling);
    EXPECT_GE(seen.begin()->count(), ceiling / 2);
    EXPECT_GT(seen.size(), 1U);
  }
}

}  // namespace
