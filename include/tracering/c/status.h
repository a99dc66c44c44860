// What functions of the C API return that can fail for a reason worth telling.
//
// Each of them takes `error` and `error_size`: a place for a sentence that
// names the value and the rule that it breaks, or what is missing. It is cut
// to fit, always ends with a NUL, and is empty where all is well. No place is
// needed: `error` may be null. No state; any thread.
#ifndef TRACERING_C_STATUS_H_
#define TRACERING_C_STATUS_H_

#include <stdint.h>

#include "tracering/export.h"

#ifdef __cplusplus
extern "C" {
#endif

// One of the constants below, whose values stay as they are. More may come.
typedef int32_t tracering_status;

enum {
  TRACERING_OK = 0,
  TRACERING_UNKNOWN = 2,
  TRACERING_INVALID_ARGUMENT = 3,
  TRACERING_DEADLINE_EXCEEDED = 4,
  TRACERING_NOT_FOUND = 5,
  TRACERING_ALREADY_EXISTS = 6,
  TRACERING_PERMISSION_DENIED = 7,
  TRACERING_RESOURCE_EXHAUSTED = 8,
  TRACERING_FAILED_PRECONDITION = 9,
  TRACERING_INTERNAL = 13,
  TRACERING_UNAVAILABLE = 14
};

// "INVALID_ARGUMENT" and so on; "UNKNOWN" for a value that is none of them.
// Never null, valid for ever.
TRACERING_EXPORT const char* tracering_status_name(tracering_status status);

#ifdef __cplusplus
}
#endif

#endif  // TRACERING_C_STATUS_H_
