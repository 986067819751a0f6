#pragma once

namespace baechi {

/// Short hash of the git commit that was built, "5506f66" or "5506f66-dirty"; "" if not in a
/// checkout.
extern const char* const commit;

}  // namespace baechi
