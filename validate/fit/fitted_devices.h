/// Device kinds fitted to NVIDIA's published example trainings.
#pragma once
#include <atomic>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "sim/watch.h"
#include "validate/fit/device_numbers.h"
#include "validate/published/examples.h"

namespace baechi::validate {

/// A row with a known speed, its step, and what the fit sees of it.
struct FittedRow {
  /// Throws InputError if the kind's data sheet, in `devices.yaml`, has no peak in the row's number
  /// format.
  explicit FittedRow(ExampleRow row);

  ExampleRow row;
  ExampleStep step;
  FitCase fit_case{};
  const DeviceModel* sheet = nullptr;
};

/// What the engine simulates of a row on the device that the numbers make, relative to what was
/// measured, less 1; without its sign.
double engine_error(const FittedRow& row, const DeviceNumbers& numbers);

/// Errors of the engine on rows, each with numbers that were fitted without the rows of its fold.
struct CrossValidated {
  std::size_t rows = 0, folds = 0;
  double mean = 0.0;           ///< over the rows, of the absolute errors
  double mean_of_folds = 0.0;  ///< over the folds, of their means
};
/// The positions of rows, by the name of their fold.
using Folds = std::map<std::string, std::vector<std::size_t>>;
/// `fold` gives the row's fold, "" for a row that is in none and always fitted to.
Folds folds_of(std::span<const FittedRow> rows,
               const std::function<std::string(const ExampleRow&)>& fold);
/// `also`, if given: whether a row is left out of the fit for a fold without being in it. `done`
/// counts the folds.
CrossValidated cross_validate(
    std::span<const FittedRow> rows, std::span<const FitCase> cases, const Folds& folds,
    std::atomic<std::size_t>& done,
    const std::function<bool(const ExampleRow&, const std::string& fold)>& also = {});

/// The kinds as scenarios/devices.yaml has them, with a comment that says how well they do. `watch`
/// counts fits, cross-validations among them.
std::string fit_devices(const std::string& folder, const Watch& watch);

}  // namespace baechi::validate
