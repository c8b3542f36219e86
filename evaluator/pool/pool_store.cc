#include "evaluator/pool/pool_store.h"

#include <sqlite3.h>

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"

namespace dice {
namespace {

// Raised when the tables change; an older file is then set aside.
constexpr int kVersion = 1;

constexpr char kSchema[] = R"sql(
  PRAGMA journal_mode = WAL;
  PRAGMA synchronous = NORMAL;
  PRAGMA busy_timeout = 5000;
  CREATE TABLE IF NOT EXISTS verdicts (
    key TEXT NOT NULL, device_class TEXT NOT NULL, decided_at REAL NOT NULL,
    timed INTEGER NOT NULL, verdict BLOB NOT NULL,
    PRIMARY KEY (key, device_class)) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS tasks (
    digest TEXT PRIMARY KEY, task BLOB NOT NULL) WITHOUT ROWID;
)sql";

absl::Status SqlError(sqlite3* db, absl::string_view what) {
  const int code = db == nullptr ? SQLITE_NOMEM : sqlite3_errcode(db);
  const std::string text = absl::StrCat(
      what, ": ", db == nullptr ? "no memory" : sqlite3_errmsg(db));
  if (code == SQLITE_FULL) return absl::ResourceExhaustedError(text);
  if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB) {
    return absl::DataLossError(text);
  }
  return absl::InternalError(text);
}

bool HoldsTimes(const Verdict& v) {
  return v.candidate_ms() > 0 || v.speedup() > 0;
}

int ReadVersion(sqlite3* db) {
  sqlite3_stmt* s = nullptr;
  int version = -1;
  if (sqlite3_prepare_v2(db, "PRAGMA user_version", -1, &s, nullptr) ==
          SQLITE_OK &&
      sqlite3_step(s) == SQLITE_ROW) {
    version = sqlite3_column_int(s, 0);
  }
  sqlite3_finalize(s);
  return version;
}

void BindText(sqlite3_stmt* s, int i, const std::string& text) {
  sqlite3_bind_text(s, i, text.data(), static_cast<int>(text.size()),
                    SQLITE_TRANSIENT);
}
void BindBlob(sqlite3_stmt* s, int i, const std::string& bytes) {
  sqlite3_bind_blob64(s, i, bytes.data(), bytes.size(), SQLITE_TRANSIENT);
}

// Runs a statement that returns no rows, and resets it.
absl::Status Execute(sqlite3* db, sqlite3_stmt* s, absl::string_view what) {
  const int rc = sqlite3_step(s);
  absl::Status status =
      rc == SQLITE_DONE ? absl::OkStatus() : SqlError(db, what);
  sqlite3_reset(s);
  sqlite3_clear_bindings(s);
  return status;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PoolStore>> PoolStore::Open(
    const Options& options, Clock& clock) {
  std::unique_ptr<PoolStore> store(new PoolStore(options, clock));
  absl::Status status = store->Connect();
  if (absl::IsDataLoss(status) && !options.path.empty()) {
    DICE_LOG(kWarning) << status.message() << "; moved aside as "
                       << options.path << ".old";
    store->Disconnect();
    std::rename(options.path.c_str(), (options.path + ".old").c_str());
    for (const char* suffix : {"-wal", "-shm"}) {
      std::remove((options.path + suffix).c_str());
    }
    status = store->Connect();
  }
  DICE_RETURN_IF_ERROR(status) << "opening the verdict cache " << options.path;
  return store;
}

absl::Status PoolStore::Connect() {
  MutexLock lock(mu_);
  const std::string path = options_.path.empty() ? ":memory:" : options_.path;
  if (sqlite3_open(path.c_str(), &db_) != SQLITE_OK) {
    return SqlError(db_, path);
  }
  const int version = ReadVersion(db_);
  if (version > 0 && version != kVersion) {
    return absl::DataLossError(absl::StrCat(path, " has version ", version));
  }
  const std::string schema =
      absl::StrCat(kSchema, "PRAGMA user_version = ", kVersion, ";");
  if (sqlite3_exec(db_, schema.c_str(), nullptr, nullptr, nullptr) !=
      SQLITE_OK) {
    return SqlError(db_, path);
  }
  const std::pair<sqlite3_stmt**, const char*> statements[] = {
      {&find_verdict_,
       "SELECT verdict FROM verdicts WHERE key = ? AND device_class = ? "
       "AND (timed = 0 OR decided_at >= ?)"},
      {&put_verdict_, "INSERT OR REPLACE INTO verdicts VALUES (?, ?, ?, ?, ?)"},
      {&find_task_, "SELECT task FROM tasks WHERE digest = ?"},
      {&put_task_, "INSERT OR IGNORE INTO tasks VALUES (?, ?)"},
  };
  for (const auto& [statement, sql] : statements) {
    if (sqlite3_prepare_v2(db_, sql, -1, statement, nullptr) != SQLITE_OK) {
      return SqlError(db_, sql);
    }
  }
  return absl::OkStatus();
}

void PoolStore::Disconnect() {
  MutexLock lock(mu_);
  for (sqlite3_stmt** s :
       {&find_verdict_, &put_verdict_, &find_task_, &put_task_}) {
    sqlite3_finalize(*s);
    *s = nullptr;
  }
  sqlite3_close(db_);
  db_ = nullptr;
}

PoolStore::~PoolStore() { Disconnect(); }

absl::StatusOr<std::optional<std::string>> PoolStore::FirstBlob(
    sqlite3_stmt* s, const std::string& a, const std::string& b) {
  BindText(s, 1, a);
  if (!b.empty()) {
    BindText(s, 2, b);
    sqlite3_bind_double(
        s, 3,
        absl::ToDoubleSeconds(clock_.Now() - options_.timing_ttl -
                              absl::UnixEpoch()));
  }
  std::optional<std::string> blob;
  const int rc = sqlite3_step(s);
  if (rc == SQLITE_ROW) {
    blob.emplace(static_cast<const char*>(sqlite3_column_blob(s, 0)),
                 sqlite3_column_bytes(s, 0));
  }
  absl::Status status = rc == SQLITE_ROW || rc == SQLITE_DONE
                            ? absl::OkStatus()
                            : SqlError(db_, "reading the verdict cache");
  sqlite3_reset(s);
  if (!status.ok()) return status;
  return blob;
}

std::optional<Verdict> PoolStore::FindVerdict(const std::string& key,
                                              const std::string& device_class) {
  MutexLock lock(mu_);
  const auto blob = FirstBlob(find_verdict_, key, device_class);
  if (!blob.ok()) DICE_LOG(kWarning) << blob.status();
  Verdict verdict;
  if (!blob.ok() || !*blob || !verdict.ParseFromString(**blob)) {
    return std::nullopt;
  }
  verdict.set_cached(true);
  return verdict;
}

absl::Status PoolStore::PutVerdict(const std::string& key,
                                   const std::string& device_class,
                                   const Verdict& verdict) {
  MutexLock lock(mu_);
  BindText(put_verdict_, 1, key);
  BindText(put_verdict_, 2, device_class);
  sqlite3_bind_double(put_verdict_, 3,
                      absl::ToDoubleSeconds(clock_.Now() - absl::UnixEpoch()));
  sqlite3_bind_int(put_verdict_, 4, HoldsTimes(verdict));
  BindBlob(put_verdict_, 5, verdict.SerializeAsString());
  return Execute(db_, put_verdict_, "storing a verdict");
}

bool PoolStore::HasTask(const std::string& digest) {
  MutexLock lock(mu_);
  if (unsaved_tasks_.count(digest) > 0) return true;
  const auto blob = FirstBlob(find_task_, digest, "");
  return blob.ok() && blob->has_value();
}

std::optional<Task> PoolStore::FindTask(const std::string& digest) {
  MutexLock lock(mu_);
  const auto unsaved = unsaved_tasks_.find(digest);
  if (unsaved != unsaved_tasks_.end()) return unsaved->second;
  const auto blob = FirstBlob(find_task_, digest, "");
  Task task;
  if (!blob.ok() || !*blob || !task.ParseFromString(**blob)) {
    return std::nullopt;
  }
  return task;
}

absl::Status PoolStore::PutTask(const std::string& digest, const Task& task) {
  MutexLock lock(mu_);
  BindText(put_task_, 1, digest);
  BindBlob(put_task_, 2, task.SerializeAsString());
  absl::Status saved = Execute(db_, put_task_, "storing a task");
  if (!saved.ok()) unsaved_tasks_[digest] = task;
  return saved;
}

}  // namespace dice
