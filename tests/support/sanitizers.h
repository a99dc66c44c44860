// Which sanitizer slows this build down and brings limits of its own: neither
// its allocator nor its threads are made for a child that was forked while
// other threads ran.
#ifndef TRACERING_TESTS_SUPPORT_SANITIZERS_H_
#define TRACERING_TESTS_SUPPORT_SANITIZERS_H_

namespace tracering::test {

#if defined(__has_feature)
inline constexpr bool kThreadSanitizer = __has_feature(thread_sanitizer);
inline constexpr bool kAddressSanitizer = __has_feature(address_sanitizer);
#else
#ifdef __SANITIZE_THREAD__
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif
#ifdef __SANITIZE_ADDRESS__
inline constexpr bool kAddressSanitizer = true;
#else
inline constexpr bool kAddressSanitizer = false;
#endif
#endif
inline constexpr bool kSanitized = kThreadSanitizer || kAddressSanitizer;

}  // namespace tracering::test

#endif  // TRACERING_TESTS_SUPPORT_SANITIZERS_H_
