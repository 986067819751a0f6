/// The commit that the program was built from.
#pragma once

namespace baechi {

/// "5506f66", with "-dirty" where files were changed since; "" if it was not built from a checkout.
extern const char* const commit;

}  // namespace baechi
