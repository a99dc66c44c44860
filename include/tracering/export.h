// Which symbols the libraries show: those that are declared with
// TRACERING_EXPORT. All others are hidden, so that programs cannot come to
// depend on them, nor meet them by a name of their own.
//
// C and C++. Nothing has to be defined, whichever kind of library is linked.
#ifndef TRACERING_EXPORT_H_
#define TRACERING_EXPORT_H_

#define TRACERING_EXPORT __attribute__((visibility("default")))

#endif  // TRACERING_EXPORT_H_
