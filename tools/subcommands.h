// The subcommands of the program: each takes its arguments and returns the exit
// status.
//
// They end the program themselves where an argument is wrong. One a process.
#ifndef TRACERING_TOOLS_SUBCOMMANDS_H_
#define TRACERING_TOOLS_SUBCOMMANDS_H_

#include <string>
#include <vector>

namespace tracering::tools {

int Record(std::vector<std::string> arguments);
int Dump(std::vector<std::string> arguments);
int Ring(std::vector<std::string> arguments);
int Stat(std::vector<std::string> arguments);

}  // namespace tracering::tools

#endif  // TRACERING_TOOLS_SUBCOMMANDS_H_
