// The fold that callers get.
#include "turnwire/view.h"

#include <gtest/gtest.h>

#include "events.h"

namespace {

namespace v1 = turnwire::v1;
using events::update;
using turnwire::RunView;
using Ids = std::vector<std::string>;

RunView view_of(events::Events of) {
  RunView view;
  view.apply(update(std::move(of)));
  return view;
}

std::optional<Ids> waited_for(const RunView& view) {
  const auto waiting = view.waiting();
  if (!waiting) return std::nullopt;
  Ids ids;
  for (const auto& approval : waiting->approvals()) ids.push_back(approval.approval_id());
  for (const auto& call : waiting->client_tool_calls()) ids.push_back(call.call_id());
  return ids;
}

TEST(View, OfNothingHasNothing) {
  const RunView view;
  EXPECT_TRUE(view.run_id().empty() && view.text().empty());
  EXPECT_TRUE(!view.outcome() && !view.message() && !view.usage() && !view.waiting());
  EXPECT_FALSE(view.structured_output_json());
}

TEST(View, TextGrowsWithTheDeltasOfTheNewestIteration) {
  const RunView view = view_of({events::started(), events::text(2, "Let me look. ", 1), events::text(3, "It is ", 2),
                                events::text(4, "noon.", 2), events::unknown(5)});
  EXPECT_EQ(view.run_id(), "run_1");
  EXPECT_EQ(view.text(), "It is noon.");
  EXPECT_EQ(view.outcome(), nullptr);
}

TEST(View, PartsStayInTheOrderInWhichTheyBeganAndAFinishedOneReplacesItsDeltas) {
  v1::RunEvent second = events::text(3, " world");
  second.mutable_text_delta()->set_part_id("part_2");
  v1::RunEvent whole = events::unknown(4);
  whole.set_iteration(1);
  whole.mutable_part_finished()->mutable_part()->set_part_id("part_1");
  whole.mutable_part_finished()->mutable_part()->set_text("Hello");
  EXPECT_EQ(view_of({events::started(), events::text(2, "Hel"), second, whole}).text(), "Hello world");
}

TEST(View, TheEndHasTheMessageTheOutcomeAndWhatWasUsed) {
  v1::RunEvent end = events::finished(3, "It is noon.");
  end.mutable_run_finished()->mutable_usage()->set_input_tokens(9007199254740993);  // more than a double can hold
  end.mutable_run_finished()->set_structured_output_json(R"({"n":1})");
  const RunView view = view_of({events::started(), events::text(2, "It"), end});
  EXPECT_EQ(view.text(), "It is noon.");
  ASSERT_TRUE(view.outcome() && view.usage());
  EXPECT_EQ(view.outcome()->kind(), v1::OUTCOME_KIND_ANSWERED);
  EXPECT_EQ(view.usage()->input_tokens(), 9007199254740993);
  EXPECT_EQ(view.structured_output_json(), R"({"n":1})");
}

TEST(View, ARewindTakesBackWhatNeverHappened) {
  RunView view = view_of({events::started(), events::text(2, "kept, "), events::text(3, "lost")});
  turnwire::Update rewound = update({events::text(3, "new")});
  rewound.rewind_to = 2;
  view.apply(rewound);
  EXPECT_EQ(view.text(), "kept, new");
  EXPECT_EQ(view.events().size(), 3U);
}

TEST(View, ShowsWhatTheRunWaitsForWhileItWaits) {
  RunView view = view_of({events::started(), events::waiting(2, {}, {"a", "b"})});
  EXPECT_EQ(waited_for(view), (Ids{"a", "b"}));
  view.apply(update({events::waiting(3, {{"x", "tool"}}, {"c"}, true), events::resolved(4, "a")}));
  EXPECT_EQ(waited_for(view), (Ids{"b", "c", "x"}));
  view.apply(update({events::settled(5, "x"), events::resolved(6, "b"), events::resolved(7, "c")}));
  EXPECT_EQ(waited_for(view), Ids{}) << "all has settled, and the run is about to go on";
  view.apply(update({events::waiting(8, {}, {"d"})}));
  EXPECT_EQ(waited_for(view), Ids{"d"});
  view.apply(update({events::resumed(9)}));
  EXPECT_EQ(waited_for(view), std::nullopt);
}

}  // namespace
