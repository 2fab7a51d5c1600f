// Events and frames as a server would send them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "turnwire/turnwire.h"

namespace events {

namespace v1 = turnwire::v1;
using Events = std::vector<v1::RunEvent>;

// Of a case of a later contract: it comes as an event without one.
inline v1::RunEvent unknown(std::int64_t sequence) {
  v1::RunEvent event;
  event.set_sequence(sequence);
  return event;
}

inline v1::RunEvent started() {
  v1::RunEvent event = unknown(1);
  event.mutable_run_started()->set_run_id("run_1");
  return event;
}

inline v1::RunEvent text(std::int64_t sequence, const std::string& words, int iteration = 1) {
  v1::RunEvent event = unknown(sequence);
  event.set_iteration(iteration);
  event.mutable_text_delta()->set_part_id("part_1");
  event.mutable_text_delta()->set_text(words);
  return event;
}

inline v1::RunEvent finished(std::int64_t sequence, const std::string& words = "") {
  v1::RunEvent event = unknown(sequence);
  event.mutable_run_finished()->mutable_outcome()->set_kind(v1::OUTCOME_KIND_ANSWERED);
  event.mutable_run_finished()->mutable_message()->add_parts()->set_text(words);
  return event;
}

// Waits for client calls, as {call_id, name} with arguments {"n": 1}, and for approvals.
inline v1::RunEvent waiting(std::int64_t sequence, const std::vector<std::pair<std::string, std::string>>& calls,
                            const std::vector<std::string>& approval_ids = {}, bool only_new = false) {
  v1::RunEvent event = unknown(sequence);
  event.mutable_run_waiting()->set_only_new(only_new);
  for (const auto& [call_id, name] : calls) {
    v1::ToolCall* call = event.mutable_run_waiting()->add_client_tool_calls();
    call->set_call_id(call_id);
    call->mutable_tool()->set_routed_name(name);
    call->set_arguments_json(R"({"n": 1})");
  }
  for (const std::string& id : approval_ids) {
    v1::Approval* approval = event.mutable_run_waiting()->add_approvals();
    approval->set_approval_id(id);
    approval->set_call_digest("digest of " + id);
  }
  return event;
}

inline v1::RunEvent resumed(std::int64_t sequence) {
  v1::RunEvent event = unknown(sequence);
  event.mutable_run_resumed();
  return event;
}

inline v1::RunEvent settled(std::int64_t sequence, const std::string& call_id) {
  v1::RunEvent event = unknown(sequence);
  event.mutable_tool_call_finished()->mutable_result()->set_call_id(call_id);
  return event;
}

inline v1::RunEvent resolved(std::int64_t sequence, const std::string& approval_id) {
  v1::RunEvent event = unknown(sequence);
  event.mutable_approval_resolved()->set_approval_id(approval_id);
  return event;
}

// Complete through its last event.
inline turnwire::Frame frame(Events of, std::int64_t epoch = 1) {
  turnwire::Frame made;
  made.through_sequence = of.empty() ? 0 : of.back().sequence();
  made.events = std::move(of);
  made.epoch = epoch;
  return made;
}

inline turnwire::Update update(Events of) {
  turnwire::Update made;
  made.events = std::move(of);
  return made;
}

}  // namespace events
