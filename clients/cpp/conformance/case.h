// A case as it comes, and what it asks of the client.
#pragma once

#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <stop_token>
#include <string>
#include <vector>

#include "turnwire/turnwire.h"

namespace conformance {

// What is kept of a case beside its view.
struct Seen {
  std::mutex mutex;
  std::map<std::string, std::vector<std::string>> arguments;
  std::vector<std::string> asked;
  int rewinds = 0;
  turnwire::RunView view;
};

class Case {
 public:
  explicit Case(nlohmann::json given) : given_(std::move(given)) {}

  [[nodiscard]] std::string id() const { return given_.at("id"); }
  // Calls the server as the case says. Throws what the client throws; what came until then is in `seen`.
  void play(Seen& seen) const;

 private:
  [[nodiscard]] turnwire::Client client() const;
  [[nodiscard]] turnwire::Resume resume() const;
  [[nodiscard]] std::optional<turnwire::milliseconds> timeout() const;
  [[nodiscard]] turnwire::RunOptions options(Seen& seen) const;
  void take(const turnwire::Update& update, Seen& seen, std::stop_source& stop) const;

  nlohmann::json given_;
};

// The name of the event's case in the contract.
std::string kind(const turnwire::v1::RunEvent& event);

}  // namespace conformance
