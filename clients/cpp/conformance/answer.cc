#include "answer.h"

#include <cstdint>
#include <vector>

namespace conformance {
namespace {

using nlohmann::json;

json failure_of(const std::exception_ptr& error) {
  if (!error) return nullptr;
  try {
    std::rethrow_exception(error);
  } catch (const turnwire::Error& refused) {
    return {{"type", "TurnwireError"},
            {"code", turnwire::code_name(refused.code())},
            {"reason", refused.reason()},
            {"domain", refused.domain()},
            {"metadata", refused.metadata()}};
  } catch (const turnwire::StreamLost&) {
    return {{"type", "StreamLost"}};
  } catch (const turnwire::DeadlineExceeded&) {
    return {{"type", "DeadlineExceeded"}};
  } catch (const turnwire::Cancelled&) {
    return {{"type", "Cancelled"}};
  }
}

json waiting_of(const turnwire::RunView& view) {
  json ids = json::array();
  if (const auto waiting = view.waiting()) {
    for (const auto& approval : waiting->approvals()) ids.push_back(approval.approval_id());
    for (const auto& call : waiting->client_tool_calls()) ids.push_back(call.call_id());
  }
  return ids;
}

json usage_of(const turnwire::RunView& view) {
  const auto* usage = view.usage();
  if (usage == nullptr) return nullptr;
  return {{"input_tokens", std::to_string(usage->input_tokens())},
          {"output_tokens", std::to_string(usage->output_tokens())}};
}

}  // namespace

json answer(const std::string& id, const Seen& seen, const std::exception_ptr& error) {
  const turnwire::RunView& view = seen.view;
  bool dense = true;
  std::int64_t last = 0;
  std::vector<std::string> kinds;
  for (const auto& event : view.events()) {
    dense = dense && (event.has_first_sequence() ? event.first_sequence() : event.sequence()) == last + 1;
    last = event.sequence();
    if (kinds.empty() || kinds.back() != kind(event)) kinds.push_back(kind(event));
  }
  const auto* outcome = view.outcome();
  return {
      {"id", id},
      {"run_id", view.run_id().empty() ? json() : json(view.run_id())},
      {"text", view.text()},
      {"outcome", outcome != nullptr ? json(turnwire::v1::OutcomeKind_Name(outcome->kind())) : json()},
      {"waiting", waiting_of(view)},
      {"kinds", kinds},
      {"sequences_dense", dense},
      {"last_sequence", std::to_string(last)},
      {"usage", usage_of(view)},
      {"tool_arguments", seen.arguments},
      {"approvals_asked", seen.asked},
      {"rewinds", seen.rewinds},
      {"error", failure_of(error)},
  };
}

}  // namespace conformance
