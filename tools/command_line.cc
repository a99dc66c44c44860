// Parsing and complaining; see command_line.h.
#include "tools/command_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <optional>
#include <system_error>
#include <utility>

#include "tools/utf8.h"

namespace tracering::tools {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr std::array<Unit, 5> kByteUnits = {{{"", 1},
                                             {"K", 1024.0},
                                             {"M", 1048576.0},
                                             {"G", 1073741824.0},
                                             {"T", 1099511627776.0}}};
constexpr std::array<Unit, 5> kTimeUnits = {
    {{"", 1e3}, {"ms", 1}, {"s", 1e3}, {"m", 60e3}, {"h", 3600e3}}};

// "1.5M" and the like, rounded to a whole number.
template <size_t kNumUnits>
std::optional<uint64_t> ParseWithUnit(
    std::string_view text, const std::array<Unit, kNumUnits>& units) {
  const size_t digits = text.find_first_not_of("0123456789.");
  const std::string_view number = text.substr(0, digits);
  const std::string_view name =
      digits == std::string_view::npos ? "" : text.substr(digits);
  double value = 0;
  const char* const end = number.data() + number.size();
  const auto [rest, error] =
      std::from_chars(number.data(), end, value, std::chars_format::fixed);
  if (number.empty() || error != std::errc() || rest != end) {
    return std::nullopt;
  }
  for (const Unit& unit : units) {
    if (unit.name != name) continue;
    value *= unit.factor;
    if (value > 9e18) return std::nullopt;
    return static_cast<uint64_t>(std::round(value));
  }
  return std::nullopt;
}

std::string Scaled(double value, double base,
                   const std::array<std::string_view, 5>& units) {
  size_t unit = 0;
  while (value >= base && unit + 1 < units.size()) {
    value /= base;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f}{}", value, units[0])
                   : fmt::format("{:.1f}{}", value, units[unit]);
}

}  // namespace

CommandLine::CommandLine(std::string command, std::string usage,
                         std::vector<std::string> arguments)
    : command_(std::move(command)),
      usage_(std::move(usage)),
      arguments_(std::move(arguments)) {
  while (end_ != arguments_.size() && arguments_[end_] != "--") ++end_;
}

bool CommandLine::Next() {
  if (next_ == end_) return false;
  argument_ = arguments_[next_++];
  option_.clear();
  has_value_ = false;
  // A lone "-" is an operand, by convention a stream.
  if (argument_.size() < 2 || argument_[0] != '-') return true;
  if (argument_[1] == '-') {
    const size_t equals = argument_.find('=');
    has_value_ = equals != std::string::npos;
    option_ = argument_.substr(0, equals);
    if (has_value_) value_ = argument_.substr(equals + 1);
  } else {
    has_value_ = argument_.size() > 2;
    option_ = argument_.substr(0, 2);
    if (has_value_) value_ = argument_.substr(2);
  }
  if (Is("--help", "-h")) {
    NoValue();
    std::exit(Print(command_, usage_) ? EXIT_SUCCESS : kExitFailure);
  }
  return true;
}

const std::string& CommandLine::Value() {
  if (!has_value_) {
    if (next_ == end_) Fail(option_ + " needs a value");
    value_ = arguments_[next_++];
    has_value_ = true;
  }
  if (value_.empty()) FailValue("it must not be empty");
  return value_;
}

void CommandLine::NoValue() const {
  if (has_value_) Fail(option_ + " takes no value");
}

std::vector<std::string> CommandLine::Rest() const {
  if (!HasRest()) return {};
  return {arguments_.begin() + static_cast<std::ptrdiff_t>(end_) + 1,
          arguments_.end()};
}

uint64_t CommandLine::Number(uint64_t min, uint64_t max) {
  return NumberFrom(Value(), min, max);
}

uint64_t CommandLine::NumberFrom(std::string_view text, uint64_t min,
                                 uint64_t max) const {
  uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || rest != end || number < min || number > max) {
    FailValue(fmt::format("'{}' must be a whole number from {} to {}",
                          Printable(text), min, max));
  }
  return number;
}

uint64_t CommandLine::BytesFrom(std::string_view text, uint64_t min,
                                uint64_t max) const {
  const std::optional<uint64_t> bytes = ParseWithUnit(text, kByteUnits);
  if (!bytes.has_value()) {
    FailValue(
        fmt::format("'{}' must be a number of bytes, such as 65536, 64K, "
                    "32M or 1.5G",
                    Printable(text)));
  }
  if (*bytes < min || *bytes > max) {
    FailValue(fmt::format("'{}' must be from {} to {} bytes", Printable(text),
                          min, max));
  }
  return *bytes;
}

std::chrono::milliseconds CommandLine::Time(std::chrono::milliseconds min,
                                            std::chrono::milliseconds max) {
  const std::optional<uint64_t> time = ParseWithUnit(Value(), kTimeUnits);
  if (!time.has_value()) {
    FailValue("it must be a time, such as 250ms, 10s, 5m or 1h");
  }
  if (*time < static_cast<uint64_t>(min.count()) ||
      *time > static_cast<uint64_t>(max.count())) {
    FailValue(fmt::format("it must be from {} to {}", ReadableTime(min),
                          ReadableTime(max)));
  }
  return std::chrono::milliseconds(*time);
}

void CommandLine::FailValue(std::string_view rule) const {
  Fail(fmt::format("{} '{}': {}", option_, Printable(value_), rule));
}

void CommandLine::FailUnknown() const {
  Fail(option_.empty()
           ? fmt::format("unexpected argument '{}'", Printable(argument_))
           : fmt::format("unknown option '{}'", Printable(argument_)));
}

void CommandLine::Fail(std::string_view message) const {
  PrintError(fmt::format("tracering {0}: {1}\nTry 'tracering {0} --help'.\n",
                         command_, message));
  std::exit(kExitUsage);
}

void Complain(std::string_view command, const absl::Status& status) {
  Complain(command, std::string(status.message()));
}

void Complain(std::string_view command, std::string_view message) {
  PrintError(fmt::format("tracering {}: {}\n", command, Printable(message)));
}

// Not fmt::print, which throws.
void PrintError(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
}

bool Print(std::string_view command, std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() &&
      std::fflush(stdout) == 0) {
    return true;
  }
  Complain(command, fmt::format("cannot print: {}", std::strerror(errno)));
  return false;
}

std::string OutputProblem(const std::string& path_name) {
  const std::filesystem::path path(path_name);
  const std::filesystem::path directory =
      path.has_parent_path() ? path.parent_path() : ".";
  std::error_code error;
  const std::filesystem::file_type type =
      std::filesystem::symlink_status(path, error).type();
  std::error_code ignored;
  if (!path.has_filename() || std::filesystem::is_directory(path, ignored)) {
    return "it is a directory, not a file";
  }
  if (type == std::filesystem::file_type::none) {
    return fmt::format("cannot look at it: {}", error.message());
  }
  if (type != std::filesystem::file_type::not_found &&
      type != std::filesystem::file_type::regular) {
    return "it exists and is not a regular file";
  }
  if (access(directory.c_str(), W_OK | X_OK) != 0) {
    return fmt::format("cannot create files in '{}': {}",
                       Printable(directory.string()), std::strerror(errno));
  }
  return "";
}

std::string ReadableCount(double count) {
  return Scaled(count, 1000, {"", "k", "M", "G", "T"});
}

std::string ReadableBytes(double bytes) {
  return Scaled(bytes, 1024, {" B", " KiB", " MiB", " GiB", " TiB"});
}

std::string ReadableTime(std::chrono::milliseconds time) {
  const auto ms = time.count();
  if (ms < 1000) return fmt::format("{} ms", ms);
  const double seconds = static_cast<double>(ms) / 1000;
  if (seconds < 120) return fmt::format("{:g} s", seconds);
  if (seconds < 7200) return fmt::format("{:g} min", seconds / 60);
  return fmt::format("{:g} h", seconds / 3600);
}

std::string Printable(std::string_view text) {
  std::string printable;
  while (!text.empty()) {
    const auto byte = static_cast<unsigned char>(text.front());
    const size_t size = Utf8Size(text);
    if (byte < 0x20 || byte == 0x7f || size == 0) {
      fmt::format_to(std::back_inserter(printable), "\\x{:02x}", byte);
      text.remove_prefix(1);
    } else {
      printable += text.substr(0, size);
      text.remove_prefix(size);
    }
  }
  return printable;
}

}  // namespace tracering::tools
