// What the options of a consumer, of a file and of a stream may say. The caller
// is trusted, but told which value breaks which rule. Thread-safe; knows
// nothing of the resources behind the options, whose lack shows when they are
// made.
#ifndef TRACERING_SRC_CONSUMER_CONSUMER_OPTIONS_H_
#define TRACERING_SRC_CONSUMER_CONSUMER_OPTIONS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tracering/consumer.h"

namespace tracering::internal {

// INVALID_ARGUMENT with the pattern of Consumer::SetEnabledCategories, or the
// number, that breaks a rule, and the rule.
absl::Status CheckCategories(const std::vector<std::string>& patterns);

// INVALID_ARGUMENT with the first value that breaks a rule, and the rule.
absl::Status CheckOptions(const ConsumerOptions& options);
absl::Status CheckOptions(const SaveOptions& options);
absl::Status CheckOptions(const StreamOptions& options);

}  // namespace tracering::internal

#endif  // TRACERING_SRC_CONSUMER_CONSUMER_OPTIONS_H_
