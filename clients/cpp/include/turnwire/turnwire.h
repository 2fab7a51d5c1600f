// All of the client: connection, streams, tools and approvals, errors, and the messages of TurnService.
#pragma once

#include "turnwire/client.h"
#include "turnwire/cursor.h"
#include "turnwire/errors.h"
#include "turnwire/run.h"
#include "turnwire/updates.h"
#include "turnwire/v1/turn_service.grpc.pb.h"
#include "turnwire/view.h"
