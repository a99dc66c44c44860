// Whether a sanitizer slows this build down, and brings limits of its own:
// neither its allocator nor its threads are made for a child that was forked
// while other threads ran.
#ifndef TRACERING_TESTS_SUPPORT_SANITIZERS_H_
#define TRACERING_TESTS_SUPPORT_SANITIZERS_H_

namespace tracering::test {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)
inline constexpr bool kSanitized =
    __has_feature(thread_sanitizer) || __has_feature(address_sanitizer);
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace tracering::test

#endif  // TRACERING_TESTS_SUPPORT_SANITIZERS_H_
