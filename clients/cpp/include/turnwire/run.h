// What run() needs: functions for tools, a decision for approvals, and what to show.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "turnwire/cursor.h"
#include "turnwire/v1/approval.pb.h"
#include "turnwire/view.h"

namespace turnwire {

// What a function gives to the model: text as it is, or a JSON value.
class ToolValue {
 public:
  // NOLINTBEGIN(google-explicit-constructor): a function just returns its text
  ToolValue(std::string text) : words_(std::move(text)) {}
  ToolValue(std::string_view text) : words_(text) {}
  ToolValue(const char* text) : words_(text) {}
  // NOLINTEND(google-explicit-constructor)
  static ToolValue json(std::string value) {
    ToolValue made(std::move(value));
    made.is_json_ = true;
    return made;
  }

  [[nodiscard]] const std::string& words() const { return words_; }
  [[nodiscard]] bool is_json() const { return is_json_; }

 private:
  std::string words_;
  bool is_json_ = false;
};

// A function that the model may call and that runs here. The arguments are the model's JSON text, perhaps not what was
// asked for, perhaps no JSON; they hold for the call. What it throws is told to the model, which may try something
// else. It runs in a thread of its own, and run() waits for its return: heed the token where it may take long.
using Tool = std::function<ToolValue(std::string_view arguments_json, std::stop_token stop)>;

// The answer to an approval.
struct Decision {
  v1::ApprovalDecision decision = v1::APPROVAL_DECISION_UNSPECIFIED;
  // Told to the model on reject.
  std::string comment;
  // Those of the approval's always_patterns that ALWAYS is for; none: all.
  std::vector<std::string> always_patterns;
  // What a tool asked for, where the approval has a schema.
  std::optional<std::string> input_json;

  static Decision once() { return {v1::APPROVAL_DECISION_ONCE, {}, {}, {}}; }
  static Decision always() { return {v1::APPROVAL_DECISION_ALWAYS, {}, {}, {}}; }
  static Decision reject(std::string comment) { return {v1::APPROVAL_DECISION_REJECT, std::move(comment), {}, {}}; }
};

struct RunOptions {
  // By the names under which the request declares them (ToolSelection.client_tools).
  std::map<std::string, Tool> tools;
  // Asked about each approval, in a thread of its own. What it throws ends run().
  std::function<Decision(const v1::Approval& approval, std::stop_token stop)> approve;
  // Shown each update as it comes, once the view has it, in the thread of run().
  std::function<void(const Update& update, const RunView& view)> on_update;
  // Time for the whole run, tools and people included.
  std::optional<milliseconds> timeout;
  // How a cut stream is taken up again.
  Resume resume;
  // Asked to stop, run() ends the run, unless its on_disconnect lets it go on, and throws Cancelled.
  std::stop_token stop;
};

}  // namespace turnwire
