// What a target buffer does when it is full.
//
// A plain value that consumer options and statistics share.
#ifndef TRACERING_FILL_POLICY_H_
#define TRACERING_FILL_POLICY_H_

namespace tracering {

enum class FillPolicy {
  // Overwrite the oldest packets: the buffer holds the last moments.
  kRing,
  // Refuse the newest packets: the buffer holds the first moments. After the
  // first packet that is refused for lack of room every later one is refused
  // as well, so that what is kept is the start and has no hole. What a stream
  // has already consumed makes room, as long as nothing was refused yet.
  kDiscard,
};

}  // namespace tracering

#endif  // TRACERING_FILL_POLICY_H_
