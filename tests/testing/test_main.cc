// main() of every test: where the sources, the build and the pinned Python are,
// unless the environment says otherwise.
#include <cstdlib>

#include "gmock/gmock.h"

int main(int argc, char** argv) {
  setenv("DICE_SOURCE_DIR", DICE_TEST_SOURCE_DIR, /*overwrite=*/0);
  setenv("DICE_BUILD_DIR", DICE_TEST_BUILD_DIR, 0);
  setenv("DICE_PYTHON", DICE_TEST_PYTHON, 0);
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
