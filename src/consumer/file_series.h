// The names of a stream that is cut into files: the newest has the name itself,
// the one before it the suffix ".1", and so on up to a number of files; what
// would be one more is replaced.
//
// Files of an earlier stream of that name move on like those of this one, so
// that a recorder that starts again does not write over what it left. One
// thread at a time.
#ifndef TRACERING_SRC_CONSUMER_FILE_SERIES_H_
#define TRACERING_SRC_CONSUMER_FILE_SERIES_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace tracering::internal {

// Moves `path` and the files before it on by one, so that `path` is free. At
// most `max_files`, which is 1 or more, are there once a new one has taken that
// name. Errors name the file that could not be moved; those before it, which
// are older, have moved by then.
absl::Status ShiftFiles(const std::string& path, uint32_t max_files);

}  // namespace tracering::internal

#endif  // TRACERING_SRC_CONSUMER_FILE_SERIES_H_
