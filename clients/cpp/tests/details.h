// Errors as a server makes them.
#pragma once

#include <grpcpp/support/status.h>

#include <map>
#include <string>

#include "turnwire/details.pb.h"

namespace details {

inline grpc::Status refusal(grpc::StatusCode code, const std::string& message, const std::string& reason,
                            const std::map<std::string, std::string>& metadata = {}, int retry_milliseconds = 0) {
  turnwire::details::Status status;
  turnwire::details::ErrorInfo info;
  info.set_reason(reason);
  info.set_domain("turnwire.v1");
  info.mutable_metadata()->insert(metadata.begin(), metadata.end());
  google::protobuf::Any* detail = status.add_details();
  detail->set_type_url("type.googleapis.com/google.rpc.ErrorInfo");
  detail->set_value(info.SerializeAsString());
  if (retry_milliseconds > 0) {
    turnwire::details::RetryInfo retry;
    retry.mutable_retry_delay()->set_seconds(retry_milliseconds / 1000);
    retry.mutable_retry_delay()->set_nanos(retry_milliseconds % 1000 * 1'000'000);
    detail = status.add_details();
    detail->set_type_url("type.googleapis.com/google.rpc.RetryInfo");
    detail->set_value(retry.SerializeAsString());
  }
  return {code, message, status.SerializeAsString()};
}

}  // namespace details
