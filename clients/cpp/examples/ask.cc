// Asks an agent: ask 127.0.0.1:7443 "What time is it?"
//
// Prints the answer as it comes, the calls of tools, and how the run ended. TURNWIRE_TOKEN is the caller's token, where
// the server wants one.
#include <cstdlib>
#include <exception>
#include <iostream>
#include <map>
#include <string>

#include "turnwire/turnwire.h"

namespace v1 = turnwire::v1;

namespace {

void show(const v1::RunEvent& event, std::map<std::string, std::string>& names) {
  switch (event.event_case()) {
    case v1::RunEvent::kTextDelta:
      std::cout << event.text_delta().text() << std::flush;
      break;
    case v1::RunEvent::kToolCallStarted: {
      const v1::ToolCallStarted& call = event.tool_call_started();
      names[call.call_id()] = call.has_tool() ? call.tool().routed_name() : call.requested_name();
      break;
    }
    case v1::RunEvent::kToolCallArgumentsFinished: {
      const v1::ToolCallArgumentsFinished& call = event.tool_call_arguments_finished();
      std::cout << '[' << names[call.call_id()] << ' ' << call.arguments_json() << "]" << std::endl;
      break;
    }
    default:
      break;
  }
}

int ask(const std::string& address, const std::string& question) {
  turnwire::ClientOptions options;
  if (const char* token = std::getenv("TURNWIRE_TOKEN")) options.token = token;
  const turnwire::Client client(address, options);
  turnwire::RunView view;
  std::map<std::string, std::string> names;
  for (turnwire::Update& update : client.follow(turnwire::prompt(question))) {
    for (const v1::RunEvent& event : update.events) show(event, names);
    view.apply(std::move(update));
  }
  const v1::Outcome* outcome = view.outcome();
  std::cout << '\n' << (outcome != nullptr ? v1::OutcomeKind_Name(outcome->kind()) : "?") << std::endl;
  return 0;
}

}  // namespace

int main(int count, char** words) {
  if (count != 3) {
    std::cerr << "usage: ask ADDRESS QUESTION\n";
    return 1;
  }
  try {
    return ask(words[1], words[2]);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
