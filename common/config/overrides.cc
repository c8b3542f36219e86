#include "common/config/overrides.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/status_macros.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"

namespace dice {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

struct Element {
  std::string field;
  std::string index;  // empty: none was given
};

absl::StatusOr<Element> ParseElement(absl::string_view text) {
  const size_t open = text.find('[');
  if (open == text.npos) return Element{.field = std::string(text)};
  if (!absl::EndsWith(text, "]") || open + 2 >= text.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\" is not of the form field[index]"));
  }
  return Element{
      .field = std::string(text.substr(0, open)),
      .index = std::string(text.substr(open + 1, text.size() - open - 2))};
}

absl::StatusOr<const FieldDescriptor*> FindField(const Message& message,
                                                 const std::string& name) {
  const auto* descriptor = message.GetDescriptor();
  const FieldDescriptor* field = descriptor->FindFieldByName(name);
  if (field != nullptr) return field;
  std::vector<std::string> names;
  for (int i = 0; i < descriptor->field_count(); ++i) {
    names.push_back(descriptor->field(i)->name());
  }
  return absl::InvalidArgumentError(
      absl::StrCat("no field \"", name, "\" in ", descriptor->name(),
                   "; it has ", absl::StrJoin(names, ", ")));
}

// Position of the element that `index` names.
absl::StatusOr<int> FindIndex(const Message& message,
                              const FieldDescriptor* field,
                              const std::string& index) {
  const auto* reflection = message.GetReflection();
  const int size = reflection->FieldSize(message, field);
  int i = 0;
  if (absl::SimpleAtoi(index, &i)) {
    if (i >= 0 && i <= size) return i;
    return absl::InvalidArgumentError(absl::StrCat(
        field->name(), "[", index, "]: there are ", size, " of them"));
  }
  for (i = 0; i < size; ++i) {
    const Message& element = reflection->GetRepeatedMessage(message, field, i);
    const auto* name = element.GetDescriptor()->FindFieldByName("name");
    if (name != nullptr &&
        element.GetReflection()->GetString(element, name) == index) {
      return i;
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("no element of ", field->name(), " is called ", index));
}

// A path may not silently turn one kind of stage into another.
absl::Status CheckOneof(const Message& message, const FieldDescriptor* field) {
  const auto* oneof = field->real_containing_oneof();
  if (oneof == nullptr) return absl::OkStatus();
  const auto* set =
      message.GetReflection()->GetOneofFieldDescriptor(message, oneof);
  if (set == nullptr || set == field) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("it holds ", set->name(), ", not ", field->name()));
}

absl::StatusOr<Message*> Descend(const Element& element, Message* message) {
  DICE_ASSIGN_OR_RETURN(const FieldDescriptor* field,
                        FindField(*message, element.field));
  if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
    return absl::InvalidArgumentError(
        absl::StrCat(element.field, " has no fields"));
  }
  DICE_RETURN_IF_ERROR(CheckOneof(*message, field));
  const auto* reflection = message->GetReflection();
  if (field->is_repeated() != !element.index.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(element.field,
                     field->is_repeated() ? " needs an index, as in "
                                          : " takes no index, as in ",
                     element.field, field->is_repeated() ? "[0]" : ""));
  }
  if (!field->is_repeated()) return reflection->MutableMessage(message, field);
  DICE_ASSIGN_OR_RETURN(const int i, FindIndex(*message, field, element.index));
  return i == reflection->FieldSize(*message, field)
             ? reflection->AddMessage(message, field)
             : reflection->MutableRepeatedMessage(message, field, i);
}

class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int, int, const std::string& text) override {
    if (text_.empty()) text_ = text;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

absl::Status SetValue(const Element& element, const std::string& value,
                      Message* message) {
  DICE_ASSIGN_OR_RETURN(const FieldDescriptor* field,
                        FindField(*message, element.field));
  DICE_RETURN_IF_ERROR(CheckOneof(*message, field));
  if (!element.index.empty() || field->is_repeated()) {
    return absl::InvalidArgumentError(
        absl::StrCat(element.field, ": name the field to set inside it"));
  }
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    message->GetReflection()->SetString(message, field, value);
    return absl::OkStatus();
  }
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  if (parser.ParseFieldValueFromString(value, field, message)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", value, "\" is no value for ", element.field, ": ", error.text()));
}

absl::Status Apply(const std::string& set, Message* message) {
  const size_t equals = set.find('=');
  if (equals == set.npos || equals == 0) {
    return absl::InvalidArgumentError("is not of the form path=value");
  }
  const std::vector<std::string> path =
      absl::StrSplit(set.substr(0, equals), '.');
  for (size_t i = 0; i < path.size(); ++i) {
    DICE_ASSIGN_OR_RETURN(const Element element, ParseElement(path[i]));
    if (i + 1 == path.size()) {
      return SetValue(element, set.substr(equals + 1), message);
    }
    DICE_ASSIGN_OR_RETURN(message, Descend(element, message));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ApplyOverride(const std::string& set, Message* message) {
  DICE_RETURN_IF_ERROR(Apply(set, message)) << "--set " << set;
  return absl::OkStatus();
}

}  // namespace dice
