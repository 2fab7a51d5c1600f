// Calls that are no stream: the token, deadlines, limits, and which of them are made again.
#include <grpc/grpc.h>
#include <gtest/gtest.h>

#include <set>
#include <stdexcept>
#include <thread>
#include <tuple>

#include "details.h"
#include "server.h"

namespace {

namespace v1 = turnwire::v1;
using grpc::StatusCode;
using testing_server::Server;
using testing_server::until;
using turnwire::milliseconds;
using Turns = v1::TurnService::Stub;

const grpc::Status kGone(StatusCode::UNAVAILABLE, "gone");

v1::GetRunRequest run_called(const std::string& run_id) {
  v1::GetRunRequest request;
  request.set_run_id(run_id);
  return request;
}

StatusCode refused(const std::function<void()>& call) {
  try {
    call();
  } catch (const turnwire::Error& error) {
    return error.code();
  }
  return StatusCode::OK;
}

TEST(Calls, WhatIsIdempotentIsTriedFourTimesWithTheToken) {
  Server server;
  const turnwire::Client client = server.client("secret");
  server.answer({kGone, kGone, kGone});
  EXPECT_EQ(client.call(&Turns::GetRun, run_called("run_7")).run().run_id(), "run_7");
  EXPECT_EQ(server.tokens(), std::vector<std::string>(4, "Bearer secret"));
  server.answer({kGone, kGone, kGone, kGone});
  EXPECT_EQ(refused([&] { client.call(&Turns::GetRun, run_called("run_7")); }), StatusCode::UNAVAILABLE);
  EXPECT_EQ(server.tokens().size(), 8U);
}

TEST(Calls, WhatIsLargeIsTriedAgainAsWell) {
  Server server;
  server.answer({kGone, kGone});
  const std::string large(4 << 20, 'x');
  EXPECT_EQ(server.client().call(&Turns::GetRun, run_called(large)).run().run_id().size(), large.size());
  EXPECT_EQ(server.tokens().size(), 3U);
}

TEST(Calls, ATurnIsStartedOnceHoweverOftenItIsTried) {
  Server server;
  const turnwire::Client client = server.client();
  server.answer({kGone, kGone, kGone});
  EXPECT_EQ(client.start_turn({}).run_id(), "run_1");
  std::set<std::string> request_ids;
  for (const auto& start : server.starts()) request_ids.insert(start.turn().request_id());
  EXPECT_EQ(server.starts().size(), 4U);
  EXPECT_EQ(request_ids.size(), 1U);
  EXPECT_FALSE(request_ids.contains(""));
  server.answer({kGone, kGone, kGone, kGone});
  v1::StartTurnRequest mine;
  mine.mutable_turn()->set_request_id("mine");
  EXPECT_EQ(refused([&] { std::ignore = client.start_turn(mine); }), StatusCode::UNAVAILABLE);
  EXPECT_EQ(server.starts().size(), 8U);
  EXPECT_EQ(server.starts().back().turn().request_id(), "mine");
}

TEST(Calls, NothingElseIsTriedTwice) {
  Server server;
  const turnwire::Client client = server.client();
  server.answer({kGone});
  EXPECT_EQ(refused([&] { client.call(&v1::McpServerService::Stub::AddMcpServer, {}); }), StatusCode::UNAVAILABLE);
  EXPECT_EQ(server.tokens().size(), 1U) << "the contract does not call it idempotent";
  server.answer({details::refusal(StatusCode::INTERNAL, "no", "INTERNAL")});
  EXPECT_EQ(refused([&] { client.call(&Turns::GetRun, run_called("run_7")); }), StatusCode::INTERNAL);
  EXPECT_EQ(server.tokens().size(), 2U) << "a server that is there has answered";
}

TEST(Calls, ADeadlineHoldsOverAllTries) {
  Server server;
  turnwire::ClientOptions hasty;
  hasty.deadline = milliseconds(50);
  const turnwire::Client client(server.address(), hasty);
  server.answer({kGone, kGone, kGone, kGone});
  EXPECT_THROW(std::ignore = client.start_turn({}), turnwire::DeadlineExceeded);
  EXPECT_LT(server.starts().size(), 4U);
  server.hold();
  EXPECT_THROW(client.call(&Turns::GetRun, run_called("run_7")), turnwire::DeadlineExceeded);
  const turnwire::Client patient = server.client();
  EXPECT_THROW(std::ignore = patient.start_turn({}, {milliseconds(50), {}}), turnwire::DeadlineExceeded);
  EXPECT_THROW(patient.call(&Turns::GetRun, run_called("run_7"), {milliseconds(50), {}}), turnwire::DeadlineExceeded);
}

TEST(Calls, ACallThatWaitsEndsWhenItsTokenIsAskedToStop) {
  Server server;
  server.hold();
  const turnwire::Client client = server.client();
  std::stop_source stop;
  const std::jthread caller([&] {
    EXPECT_THROW(client.call(&Turns::GetRun, run_called("run_7"), {{}, stop.get_token()}), turnwire::Cancelled);
  });
  until([&] { return !server.tokens().empty(); });
  stop.request_stop();
  until([&] { return server.left() == 1; });
}

TEST(Calls, ATokenThatWasAskedToStopBeforeCallsNothing) {
  Server server;
  std::stop_source stop;
  stop.request_stop();
  EXPECT_THROW(server.client().call(&Turns::GetRun, run_called("run_7"), {{}, stop.get_token()}), turnwire::Cancelled);
  EXPECT_TRUE(server.tokens().empty());
}

TEST(Calls, MessagesOfSixteenMebibytesPassBothWaysUnlessTheClientIsToldLess) {
  Server server;
  const std::string large(15 << 20, 'x');
  EXPECT_EQ(server.client().call(&Turns::GetRun, run_called(large)).run().run_id().size(), large.size());
  turnwire::ClientOptions options;
  options.max_message_bytes = 1024;
  const turnwire::Client narrow(server.address(), options);
  EXPECT_EQ(refused([&] { narrow.call(&Turns::GetRun, run_called(large)); }), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(server.tokens().size(), 1U) << "it is not sent";
}

TEST(Calls, TheLastClientThatGoesDoesNotWaitForGrpcToShutDown) {
  { const turnwire::Client client("127.0.0.1:1"); }
  EXPECT_TRUE(grpc_is_initialized());
}

TEST(Calls, ATokenThatNoHeaderCarriesIsRefusedAtOnce) {
  for (const char* token : {"two\nlines", "ünïcode"}) {
    turnwire::ClientOptions options;
    options.token = token;
    EXPECT_THROW(turnwire::Client("127.0.0.1:1", options), std::invalid_argument);
  }
}

TEST(Calls, CredentialsOfTheCallerAreThoseOfTheConnection) {
  Server server;  // in the clear: who speaks TLS does not reach it
  turnwire::ClientOptions options;
  options.credentials = grpc::SslCredentials({});
  const turnwire::Client client(server.address(), options);
  EXPECT_EQ(refused([&] { client.call(&v1::McpServerService::Stub::AddMcpServer, {}); }), StatusCode::UNAVAILABLE);
  EXPECT_TRUE(server.tokens().empty());
}

}  // namespace
