/// The git commit that the program was built from.
#pragma once

namespace baechi {

/// The short hash, such as "5506f66", with "-dirty" if files had changed since that commit; "" if
/// the program was not built from a checkout.
extern const char* const commit;

}  // namespace baechi
