// The sanitizers are there: what they are for ends the program.
#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace {

TEST(SanitizersDeathTest, AReadBehindTheEndIsSeen) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const std::vector<int> numbers(3);
  const volatile std::size_t behind = 3;
  EXPECT_DEATH(static_cast<void>(const_cast<const volatile int*>(numbers.data())[behind]), "heap-buffer-overflow");
}

TEST(SanitizersDeathTest, AnOverflowIsSeen) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  volatile int largest = std::numeric_limits<int>::max();
  EXPECT_DEATH(largest = largest + 1, "signed integer overflow");
}

}  // namespace
