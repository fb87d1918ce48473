// Replies of /v1/responses.
#pragma once

#include "server/dialect.h"

namespace ft::server {

/// One choice; its parts become items of `output`. The whole reply is what a stream's last event
/// holds.
const Dialect& responses_dialect();

}  // namespace ft::server
