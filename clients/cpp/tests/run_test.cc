// run() against a server that waits for its caller.
#include <gtest/gtest.h>

#include <algorithm>
#include <latch>
#include <stdexcept>
#include <thread>
#include <tuple>

#include "details.h"
#include "server.h"

namespace {

namespace v1 = turnwire::v1;
using grpc::StatusCode;
using testing_server::Server;
using testing_server::Stream;
using testing_server::until;
using turnwire::Decision;
using turnwire::milliseconds;
using turnwire::RunOptions;
using turnwire::RunView;
using turnwire::ToolValue;

using Calls = std::vector<std::pair<std::string, std::string>>;
using Ids = std::vector<std::string>;

// The turn that waits, and ends there as run() asks.
void waits(Server& server, const Calls& calls, const Ids& approvals = {}) {
  server.then({events::started(), events::waiting(2, calls, approvals)});
}

// The watch after it: goes on once this holds.
void goes_on(Server& server, std::function<bool()> answered) {
  server.then([answered = std::move(answered)](const Stream& stream) {
    until(answered);
    stream.send({events::resumed(3), events::finished(4, "Done.")});
    return grpc::Status::OK;
  });
}

// The watch after it: waits until its caller leaves.
void stays(Server& server) {
  server.then([](const Stream& stream) { return stream.hang(); });
}

ToolValue hang(std::string_view, const std::stop_token& stop) {
  until([&] { return stop.stop_requested(); });
  return "too late";
}

RunOptions with(const std::string& name, turnwire::Tool tool) {
  RunOptions options;
  options.tools[name] = std::move(tool);
  return options;
}

std::map<std::string, v1::ToolResult> by_id(const std::vector<v1::ToolResult>& results) {
  std::map<std::string, v1::ToolResult> found;
  for (const v1::ToolResult& result : results) found[result.call_id()] = result;
  return found;
}

TEST(Run, WhatFunctionsGiveIsHandedInByTheCallsId) {
  Server server;
  waits(server, {{"a", "text"}, {"b", "json"}, {"c", "fails"}, {"d", "odd"}});
  goes_on(server, [&] { return server.results().size() == 4; });
  RunOptions options = with("text", [](std::string_view, auto) { return "18 °C"; });
  options.tools["json"] = [](std::string_view arguments, auto) { return ToolValue::json(std::string(arguments)); };
  options.tools["fails"] = [](std::string_view, auto) -> ToolValue { throw std::runtime_error("no station"); };
  options.tools["odd"] = [](std::string_view, auto) -> ToolValue { throw 7; };
  const RunView view = server.client().run(turnwire::prompt("Go"), options);
  EXPECT_EQ(view.text(), "Done.");
  EXPECT_FALSE(view.waiting());
  auto results = by_id(server.results());
  ASSERT_EQ(results.size(), 4U);
  EXPECT_EQ(results["a"].status(), v1::TOOL_RESULT_STATUS_OK);
  EXPECT_EQ(results["a"].content(0).text(), "18 °C");
  EXPECT_EQ(results["b"].content(0).data_json(), R"({"n": 1})");
  EXPECT_EQ(results["c"].status(), v1::TOOL_RESULT_STATUS_ERROR);
  EXPECT_EQ(results["c"].content(0).text(), "no station");
  EXPECT_EQ(results["d"].status(), v1::TOOL_RESULT_STATUS_ERROR);
  ASSERT_TRUE(server.turns().size() == 1 && server.watches().size() == 1);
  EXPECT_EQ(server.turns()[0].on_wait(), v1::ON_WAIT_CLOSE);
  EXPECT_EQ(server.watches()[0].on_wait(), v1::ON_WAIT_KEEP_OPEN);
  EXPECT_EQ(server.watches()[0].after().sequence(), 2);
}

TEST(Run, FunctionsRunAtTheSameTime) {
  Server server;
  waits(server, {{"a", "meet"}, {"b", "meet"}});
  goes_on(server, [&] { return server.results().size() == 2; });
  std::latch both(2);
  const auto meet = [&](std::string_view, auto) {
    both.arrive_and_wait();
    return "met";
  };
  std::ignore = server.client().run(turnwire::prompt("Go"), with("meet", meet));
}

TEST(Run, AnApprovalIsAskedOnceAndAnsweredWithItsDigest) {
  Server server;
  waits(server, {}, {"x"});
  server.then([&](const Stream& stream) {
    until([&] { return server.decisions().size() == 1; });
    stream.send({events::waiting(3, {}, {"y"}, true)});  // x has not settled yet, and is asked for still
    until([&] { return server.decisions().size() == 2; });
    stream.send({events::resumed(4), events::finished(5)});
    return grpc::Status::OK;
  });
  RunOptions options;
  options.approve = [](const v1::Approval& approval, auto) {
    Decision decision = Decision::always();
    if (approval.approval_id() == "y") decision = Decision::reject("not today");
    if (approval.approval_id() == "x") decision.always_patterns = {"time__*"};
    if (approval.approval_id() == "x") decision.input_json = R"({"n":1})";
    return decision;
  };
  std::ignore = server.client().run(turnwire::prompt("Go"), options);
  const auto decisions = server.decisions();
  ASSERT_EQ(decisions.size(), 2U);
  EXPECT_EQ(decisions[0].run_id(), "run_1");
  EXPECT_EQ(decisions[0].decision(), v1::APPROVAL_DECISION_ALWAYS);
  EXPECT_EQ(decisions[0].always_patterns(0), "time__*");
  EXPECT_EQ(decisions[0].input_json(), R"({"n":1})");
  EXPECT_EQ(decisions[0].call_digest(), "digest of x");
  EXPECT_EQ(decisions[1].decision(), v1::APPROVAL_DECISION_REJECT);
  EXPECT_EQ(decisions[1].comment(), "not today");
  EXPECT_FALSE(decisions[1].has_input_json());
}

TEST(Run, WhatNothingCanAnswerIsLeftWaiting) {
  Server server;
  waits(server, {{"a", "nobody"}}, {"x"});
  const RunView view = server.client().run(turnwire::prompt("Go"));
  ASSERT_TRUE(view.waiting());
  EXPECT_EQ(view.waiting()->client_tool_calls_size() + view.waiting()->approvals_size(), 2);
  EXPECT_TRUE(server.watches().empty() && server.cancels().empty());
}

TEST(Run, WhatIsLeftWhenTheRestIsAnsweredIsLeftWaiting) {
  Server server;
  waits(server, {{"a", "quick"}, {"b", "nobody"}});
  server.then([&](const Stream& stream) {
    until([&] { return server.results().size() == 1; });
    stream.send({events::settled(3, "a")});
    return stream.hang();
  });
  const RunView view = server.client().run(turnwire::prompt("Go"), with("quick", [](auto, auto) { return "yes"; }));
  ASSERT_TRUE(view.waiting());
  EXPECT_EQ(view.waiting()->client_tool_calls(0).call_id(), "b");
  EXPECT_TRUE(server.cancels().empty());
  until([&] { return server.left() == 1; });
}

TEST(Run, WhereAllIsAnsweredAndNothingGoesOnYetItReadsOn) {
  Server server;
  waits(server, {{"a", "quick"}});
  server.then([&](const Stream& stream) {
    until([&] { return server.results().size() == 1; });
    stream.send({events::settled(3, "a")});
    stream.send({events::resumed(4), events::finished(5, "Done.")});
    return grpc::Status::OK;
  });
  EXPECT_EQ(server.client().run(turnwire::prompt("Go"), with("quick", [](auto, auto) { return "yes"; })).text(),
            "Done.");
}

TEST(Run, UpdatesAreShownOnceTheViewHasThem) {
  Server server;
  server.then({events::started(), events::text(2, "a"), events::finished(3, "a")});
  RunOptions options;
  std::vector<std::size_t> seen;
  options.on_update = [&](const turnwire::Update& update, const RunView& view) {
    seen.push_back(update.events.size());
    EXPECT_EQ(view.events().size(), 3U);
  };
  std::ignore = server.client().run(turnwire::prompt("Go"), options);
  EXPECT_EQ(seen, std::vector<std::size_t>{3});
}

TEST(Run, AnAnswerThatComesLateIsNoError) {
  for (const char* reason : {"RUN_SETTLED", "APPROVAL_ALREADY_RESOLVED", "APPROVAL_NOT_FOUND"}) {
    Server server;
    waits(server, {{"a", "quick"}});
    server.answer({details::refusal(StatusCode::FAILED_PRECONDITION, "late", reason)});
    goes_on(server, [&] { return server.results().size() == 1; });
    EXPECT_EQ(server.client().run(turnwire::prompt("Go"), with("quick", [](auto, auto) { return "yes"; })).text(),
              "Done.");
  }
}

TEST(Run, AnAnswerThatIsRefusedEndsItAndTheRun) {
  Server server;
  waits(server, {{"a", "quick"}});
  server.answer({details::refusal(StatusCode::INVALID_ARGUMENT, "no", "INVALID_ARGUMENT")});
  stays(server);
  try {
    std::ignore = server.client().run(turnwire::prompt("Go"), with("quick", [](auto, auto) { return "yes"; }));
    FAIL() << "the answer was refused";
  } catch (const turnwire::Error& error) {
    EXPECT_EQ(error.reason(), "INVALID_ARGUMENT");
  }
  EXPECT_EQ(server.cancels().size(), 1U);
}

TEST(Run, WhatTheCallbackForApprovalsThrowsEndsItAndTheRun) {
  Server server;
  waits(server, {{"a", "hang"}}, {"x"});
  stays(server);
  RunOptions options = with("hang", hang);
  options.approve = [](const auto&, auto) -> Decision { throw std::logic_error("nobody is at the desk"); };
  EXPECT_THROW(std::ignore = server.client().run(turnwire::prompt("Go"), options), std::logic_error);
  EXPECT_EQ(server.cancels().size(), 1U);
  EXPECT_TRUE(server.results().empty()) << "the other function was told to stop, and what it says then is no result";
}

// Stops while a function runs; the request says what then becomes of the run.
std::size_t cancels_of_a_run_that_is_stopped(const v1::RunTurnRequest& request) {
  Server server;
  waits(server, {{"a", "hang"}});
  stays(server);
  std::stop_source stop;
  RunOptions options = with("hang", [&](std::string_view arguments, std::stop_token token) {
    until([&] { return server.watches().size() == 1; });
    stop.request_stop();
    return hang(arguments, token);
  });
  options.stop = stop.get_token();
  EXPECT_THROW(std::ignore = server.client().run(request, options), turnwire::Cancelled);
  EXPECT_TRUE(server.results().empty());
  return server.cancels().size();
}

TEST(Run, StoppedWhileAFunctionRunsItEndsTheRunUnlessThatWasToGoOn) {
  v1::RunTurnRequest request = turnwire::prompt("Go");
  EXPECT_EQ(cancels_of_a_run_that_is_stopped(request), 1U);
  request.set_on_disconnect(v1::ON_DISCONNECT_CONTINUE);
  EXPECT_EQ(cancels_of_a_run_that_is_stopped(request), 0U);
  request.set_on_disconnect(v1::ON_DISCONNECT_UNSPECIFIED);
  request.mutable_turn()->set_session_id("s");
  EXPECT_EQ(cancels_of_a_run_that_is_stopped(request), 0U);
  request.set_on_disconnect(v1::ON_DISCONNECT_CANCEL);
  EXPECT_EQ(cancels_of_a_run_that_is_stopped(request), 1U);
}

TEST(Run, StoppedBetweenTheWaitAndTheEndOfItsStreamItEndsTheRun) {
  Server server;
  server.then([](const Stream& stream) {
    stream.send({events::started(), events::waiting(2, {{"a", "hang"}})});
    return stream.hang();
  });
  std::stop_source stop;
  RunOptions options = with("hang", hang);
  options.stop = stop.get_token();
  options.on_update = [&](const auto&, const auto&) { stop.request_stop(); };
  EXPECT_THROW(std::ignore = server.client().run(turnwire::prompt("Go"), options), turnwire::Cancelled);
  EXPECT_EQ(server.cancels().size(), 1U);
}

TEST(Run, ADeadlineThatPassesWhileAFunctionRunsEndsTheRun) {
  Server server;
  waits(server, {{"a", "hang"}});
  stays(server);
  RunOptions options = with("hang", hang);
  options.timeout = milliseconds(300);
  EXPECT_THROW(std::ignore = server.client().run(turnwire::prompt("Go"), options), turnwire::DeadlineExceeded);
  ASSERT_EQ(server.cancels().size(), 1U);
  EXPECT_EQ(server.cancels()[0].run_id(), "run_1");
}

TEST(Run, WhatIsThrownWhileItShowsAnUpdateEndsItAndTheRun) {
  Server server;
  waits(server, {{"a", "hang"}});
  RunOptions options = with("hang", hang);
  options.on_update = [](const auto&, const auto&) { throw std::logic_error("the window is closed"); };
  EXPECT_THROW(std::ignore = server.client().run(turnwire::prompt("Go"), options), std::logic_error);
  EXPECT_EQ(server.cancels().size(), 1U) << "the server has let go of what waits";
}

TEST(Run, AnErrorOfAnotherCallWhileItShowsAnUpdateIsThatOfItsCaller) {
  Server server;
  waits(server, {{"a", "hang"}});
  RunOptions options = with("hang", hang);
  options.on_update = [](const auto&, const auto&) { throw turnwire::Error({StatusCode::NOT_FOUND, "no such file"}); };
  EXPECT_THROW(std::ignore = server.client().run(turnwire::prompt("Go"), options), turnwire::Error);
  EXPECT_EQ(server.cancels().size(), 1U);
}

TEST(Run, AStreamThatIsLostEndsItAndTheFunctionsAndLeavesTheRunAlone) {
  Server server;
  waits(server, {{"a", "hang"}});
  for (int attempt = 0; attempt < 2; ++attempt) server.then({}, {StatusCode::UNAVAILABLE, "gone"});
  RunOptions options = with("hang", hang);
  options.resume = {1, milliseconds(1), milliseconds(1)};
  EXPECT_THROW(std::ignore = server.client().run(turnwire::prompt("Go"), options), turnwire::StreamLost);
  EXPECT_TRUE(server.cancels().empty() && server.results().empty());
}

TEST(Run, RunsOfOneClientGoOnSideBySide) {
  Server server;
  const turnwire::Client client = server.client();
  for (int run = 0; run < 4; ++run) server.then({events::started(), events::finished(2, "Done.")});
  std::vector<std::jthread> callers;
  for (int run = 0; run < 4; ++run) {
    callers.emplace_back([&] { EXPECT_EQ(client.run(turnwire::prompt("Go")).text(), "Done."); });
  }
}

}  // namespace
