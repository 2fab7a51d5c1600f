// Runs the cases of the conformance set that all clients share: one JSON object per line in, one per line out. See
// docs/clients.md.
#include <exception>
#include <iostream>
#include <string>

#include "answer.h"
#include "case.h"

namespace {

nlohmann::json played(const std::string& line) {
  const conformance::Case given(nlohmann::json::parse(line));
  conformance::Seen seen;
  std::exception_ptr error;
  try {
    given.play(seen);
  } catch (const std::runtime_error&) {  // what the client may throw
    error = std::current_exception();
  }
  return conformance::answer(given.id(), seen, error);
}

}  // namespace

int main() {
  try {
    for (std::string line; std::getline(std::cin, line);) std::cout << played(line).dump() << std::endl;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return 0;
}
