// A run as far as it has been seen: the fold that most callers want over updates.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "turnwire/cursor.h"
#include "turnwire/v1/message.pb.h"
#include "turnwire/v1/outcome.pb.h"
#include "turnwire/v1/usage.pb.h"

namespace turnwire {

// Keeps the events of a run and answers the questions that callers ask of them. Memory grows with the run; code that
// only shows text as it comes needs no view, but must then heed Update::rewind_to itself. Pointers are null while there
// is no such thing, and hold until the next apply().
class RunView {
 public:
  // Takes one update, in the order in which they come.
  void apply(Update update);

  // In order, without those that a rewind took back.
  [[nodiscard]] const std::vector<v1::RunEvent>& events() const { return events_; }
  // The first event.
  [[nodiscard]] const v1::RunStarted* started() const;
  // The last event of the run.
  [[nodiscard]] const v1::RunFinished* finished() const;
  // Empty until it is known.
  [[nodiscard]] std::string run_id() const;
  // All that the run waits for from its caller, while it does.
  [[nodiscard]] std::optional<v1::RunWaiting> waiting() const;
  // How the run ended.
  [[nodiscard]] const v1::Outcome* outcome() const;
  // The final message, when the run has ended with one.
  [[nodiscard]] const v1::Message* message() const;
  // Tokens of the whole run, once it has ended.
  [[nodiscard]] const v1::Usage* usage() const;
  // The JSON text that matches the output format, when one was asked for and the run has ended with it.
  [[nodiscard]] std::optional<std::string_view> structured_output_json() const;
  // The text of the answer: of the final message, or else of the newest iteration as far as it came.
  [[nodiscard]] std::string text() const;

 private:
  std::vector<v1::RunEvent> events_;
};

}  // namespace turnwire
