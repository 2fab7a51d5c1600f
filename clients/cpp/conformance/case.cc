#include "case.h"

#include <google/protobuf/util/json_util.h>

#include <condition_variable>
#include <stdexcept>
#include <utility>

namespace conformance {
namespace {

using nlohmann::json;

template <class Message>
Message message_of(const json& given) {
  Message message;
  const auto status = google::protobuf::util::JsonStringToMessage(given.dump(), &message);
  if (!status.ok()) throw std::invalid_argument("no request: " + status.ToString());
  return message;
}

turnwire::ToolValue value_of(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  return turnwire::ToolValue::json(value.dump());
}

turnwire::ToolValue behave(const json& behaviour, std::string_view arguments, const std::stop_token& stop) {
  if (behaviour.contains("fail")) throw std::runtime_error(behaviour["fail"].get<std::string>());
  if (behaviour.contains("return")) return value_of(behaviour["return"]);
  if (behaviour.value("hang", false)) {
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any never;
    never.wait(lock, stop, [] { return false; });
  }
  return turnwire::ToolValue::json(std::string(arguments));
}

turnwire::Decision decision_of(const json& approvals) {
  const auto decision = approvals.at("decision").get<std::string>();
  if (decision == "once") return turnwire::Decision::once();
  if (decision == "always") return turnwire::Decision::always();
  return turnwire::Decision::reject(approvals.value("comment", ""));
}

}  // namespace

turnwire::Client Case::client() const {
  turnwire::ClientOptions options;
  options.token = given_.value("token", "");
  return turnwire::Client(given_.at("target").get<std::string>(), std::move(options));
}

turnwire::Resume Case::resume() const {
  if (!given_.contains("resume")) return {};
  const json& given = given_["resume"];
  return {given.at("attempts").get<int>(), turnwire::milliseconds(given.at("initial_delay_ms").get<int>()),
          turnwire::milliseconds(given.at("max_delay_ms").get<int>())};
}

std::optional<turnwire::milliseconds> Case::timeout() const {
  if (!given_.contains("timeout_ms")) return std::nullopt;
  return turnwire::milliseconds(given_["timeout_ms"].get<int>());
}

turnwire::RunOptions Case::options(Seen& seen) const {
  turnwire::RunOptions options;
  options.timeout = timeout();
  options.resume = resume();
  const json tools = given_.value("tools", json::object());
  for (const auto& [name, behaviour] : tools.items()) {
    options.tools[name] = [&seen, name, behaviour](std::string_view arguments, const std::stop_token& stop) {
      {
        const std::lock_guard lock(seen.mutex);
        seen.arguments[name].emplace_back(arguments);
      }
      return behave(behaviour, arguments, stop);
    };
  }
  if (given_.contains("approvals")) {
    options.approve = [&seen, decision = decision_of(given_["approvals"])](const turnwire::v1::Approval& approval,
                                                                           const std::stop_token&) {
      const std::lock_guard lock(seen.mutex);
      seen.asked.push_back(approval.call().tool().routed_name());
      return decision;
    };
  }
  return options;
}

void Case::take(const turnwire::Update& update, Seen& seen, std::stop_source& stop) const {
  seen.view.apply(update);
  if (update.rewind_to) ++seen.rewinds;
  const auto cancel_on = given_.value("cancel_on", "");
  for (const auto& event : update.events) {
    if (!cancel_on.empty() && kind(event) == cancel_on) stop.request_stop();
  }
}

void Case::play(Seen& seen) const {
  const turnwire::Client caller = client();
  std::stop_source stop;
  if (given_.contains("watch")) {
    const auto request = message_of<turnwire::v1::WatchRunRequest>(given_["watch"]);
    for (const auto& update : caller.follow(request, {timeout(), resume(), stop.get_token()})) {
      take(update, seen, stop);
    }
    return;
  }
  turnwire::RunOptions how = options(seen);
  how.stop = stop.get_token();
  how.on_update = [&](const turnwire::Update& update, const turnwire::RunView&) { take(update, seen, stop); };
  seen.view = caller.run(message_of<turnwire::v1::RunTurnRequest>(given_.at("run")), std::move(how));
}

std::string kind(const turnwire::v1::RunEvent& event) {
  const auto* cases = event.GetDescriptor()->FindOneofByName("event");
  const auto* field = event.GetReflection()->GetOneofFieldDescriptor(event, cases);
  return field != nullptr ? std::string(field->name()) : "unknown";
}

}  // namespace conformance
