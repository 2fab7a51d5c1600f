// What a case has shown, as JSON.
#pragma once

#include <exception>
#include <nlohmann/json.hpp>
#include <string>

#include "case.h"

namespace conformance {

// `error`: what the client threw, or null.
nlohmann::json answer(const std::string& id, const Seen& seen, const std::exception_ptr& error);

}  // namespace conformance
