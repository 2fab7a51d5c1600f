#include "turnwire/view.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace turnwire {
namespace {

// What was told, the newest first, without what has been settled since.
v1::RunWaiting together(const std::vector<const v1::RunWaiting*>& told,
                        const std::unordered_set<std::string>& settled) {
  v1::RunWaiting whole;
  if (told.front()->has_expire_time()) *whole.mutable_expire_time() = told.front()->expire_time();
  for (auto waiting = told.rbegin(); waiting != told.rend(); ++waiting) {
    for (const v1::Approval& approval : (*waiting)->approvals()) {
      if (!settled.contains(approval.approval_id())) *whole.add_approvals() = approval;
    }
    for (const v1::ToolCall& call : (*waiting)->client_tool_calls()) {
      if (!settled.contains(call.call_id())) *whole.add_client_tool_calls() = call;
    }
  }
  return whole;
}

using Parts = std::vector<std::pair<std::string_view, std::string>>;  // by their ids, in the order in which they began

std::string& text_of(Parts& parts, const std::string& part_id) {
  const auto found =
      std::find_if(parts.rbegin(), parts.rend(), [&](const auto& part) { return part.first == part_id; });
  return found != parts.rend() ? found->second : parts.emplace_back(part_id, "").second;
}

}  // namespace

void RunView::apply(Update update) {
  if (update.rewind_to) {
    while (!events_.empty() && events_.back().sequence() > *update.rewind_to) events_.pop_back();
  }
  for (v1::RunEvent& event : update.events) events_.push_back(std::move(event));
}

const v1::RunStarted* RunView::started() const {
  return !events_.empty() && events_.front().has_run_started() ? &events_.front().run_started() : nullptr;
}

const v1::RunFinished* RunView::finished() const {
  return !events_.empty() && events_.back().has_run_finished() ? &events_.back().run_finished() : nullptr;
}

std::string RunView::run_id() const {
  const auto* first = started();
  return first != nullptr ? first->run_id() : "";
}

std::optional<v1::RunWaiting> RunView::waiting() const {
  std::unordered_set<std::string> settled;
  std::vector<const v1::RunWaiting*> told;  // the newest first
  for (auto event = events_.rbegin(); event != events_.rend(); ++event) {
    switch (event->event_case()) {
      case v1::RunEvent::kRunWaiting:
        told.push_back(&event->run_waiting());
        if (!event->run_waiting().only_new()) return together(told, settled);
        break;
      case v1::RunEvent::kRunResumed:
      case v1::RunEvent::kRunFinished:
        if (told.empty()) return std::nullopt;
        break;
      case v1::RunEvent::kApprovalResolved:
        settled.insert(event->approval_resolved().approval_id());
        break;
      case v1::RunEvent::kToolCallFinished:
        settled.insert(event->tool_call_finished().result().call_id());
        break;
      default:
        break;
    }
  }
  if (told.empty()) return std::nullopt;
  return together(told, settled);
}

const v1::Outcome* RunView::outcome() const {
  const auto* last = finished();
  return last != nullptr && last->has_outcome() ? &last->outcome() : nullptr;
}

const v1::Message* RunView::message() const {
  const auto* last = finished();
  return last != nullptr && last->has_message() ? &last->message() : nullptr;
}

const v1::Usage* RunView::usage() const {
  const auto* last = finished();
  return last != nullptr && last->has_usage() ? &last->usage() : nullptr;
}

std::optional<std::string_view> RunView::structured_output_json() const {
  const auto* last = finished();
  if (last == nullptr || !last->has_structured_output_json()) return std::nullopt;
  return last->structured_output_json();
}

std::string RunView::text() const {
  std::string whole;
  if (const v1::Message* last = message()) {
    for (const v1::Part& part : last->parts()) whole += part.text();
    return whole;
  }
  int newest = 0;
  for (const v1::RunEvent& event : events_) newest = std::max(newest, static_cast<int>(event.iteration()));
  Parts parts;
  for (const v1::RunEvent& event : events_) {
    if (event.iteration() != newest) continue;
    if (event.has_text_delta()) {
      text_of(parts, event.text_delta().part_id()) += event.text_delta().text();
    } else if (event.has_part_finished() && event.part_finished().part().has_text()) {
      text_of(parts, event.part_finished().part().part_id()) = event.part_finished().part().text();
    }
  }
  for (const auto& [part_id, text] : parts) whole += text;
  return whole;
}

}  // namespace turnwire
