// What callers are told of a call that failed.
#include "turnwire/errors.h"

#include <gtest/gtest.h>

#include "details.h"

namespace {

using grpc::StatusCode;

TEST(Errors, ARefusalHasTheReasonItsDomainAndWhatGoesWithIt) {
  const auto status =
      details::refusal(StatusCode::NOT_FOUND, "no agent x", "AGENT_NOT_FOUND", {{"agent_id", "x"}}, 1500);
  try {
    turnwire::throw_status(status);
  } catch (const turnwire::Error& error) {
    EXPECT_EQ(error.code(), StatusCode::NOT_FOUND);
    EXPECT_EQ(error.message(), "no agent x");
    EXPECT_EQ(error.reason(), "AGENT_NOT_FOUND");
    EXPECT_EQ(error.domain(), "turnwire.v1");
    EXPECT_EQ(error.metadata(), (std::map<std::string, std::string>{{"agent_id", "x"}}));
    EXPECT_EQ(error.retry_delay(), std::chrono::milliseconds(1500));
    EXPECT_STREQ(error.what(), "NOT_FOUND (AGENT_NOT_FOUND): no agent x");
    EXPECT_EQ(error.status().error_details(), status.error_details());
  }
}

TEST(Errors, WithoutDetailsThereIsNoReason) {
  for (const char* details : {"", "\xff\xff\xff"}) {
    const turnwire::Error error({StatusCode::RESOURCE_EXHAUSTED, "too large", details});
    EXPECT_EQ(error.reason(), "");
    EXPECT_FALSE(error.retry_delay());
    EXPECT_STREQ(error.what(), "RESOURCE_EXHAUSTED: too large");
  }
}

TEST(Errors, ADeadlineIsAnErrorOfItsOwn) {
  EXPECT_THROW(turnwire::throw_status({StatusCode::DEADLINE_EXCEEDED, "late"}), turnwire::DeadlineExceeded);
}

}  // namespace
