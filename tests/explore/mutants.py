#!/usr/bin/env python3
"""Faults that the explorer has to find, each one exact change of one source.

Usage: mutants.py list
       mutants.py configure      lines for CMake, NAME:FILE
       mutants.py check ROOT
       mutants.py write NAME ROOT DIRECTORY
       mutants.py run DIRECTORY [NAME]...

`write` puts the changed copy of the source below DIRECTORY, where the mutant's
include path looks first, and fails unless the text to change stands there
exactly once. `check` fails if there is a mutant for which that would. `run`
runs the programs in DIRECTORY, each on the configurations named here, and exits
with status 1 unless every one of them breaks its promise.
"""

import os
import subprocess
import sys
from typing import List, NamedTuple, Tuple

CHUNK_STATE = "src/common/ring/chunk_state.h"
RING = "src/common/ring/ring.cc"
WRITER = "src/producer/chunk_writer.cc"
TRACE_WRITER = "src/producer/trace_writer_impl.cc"
WRITER_H = "src/producer/chunk_writer.h"
READER = "src/consumer/chunk_reader.cc"
SCHEDULER = "src/consumer/ring_scheduler.cc"
ASSEMBLER = "src/consumer/packet_assembler.cc"
TARGET = "src/consumer/target_buffer.cc"
PROFILE = "src/common/profile/profile_buffer.cc"
OVERFLOW = "src/common/profile/pending_overflow.h"

# What a mutant runs; the first violation decides.
ONE_WRITER = ("w1c2-publish", "w1c2-reuse", "w1c2-full", "w1c2-batch",
              "w1c2-batch-chunks", "w1c2-split")


class Mutant(NamedTuple):
    name: str
    file: str
    old: str
    new: str
    caught_by: str
    configurations: Tuple[str, ...]


MUTANTS = (
    Mutant("claim-of-any-wrap", CHUNK_STATE,
           "    uint32_t expected = abi::FreeForWrap(wrap);\n",
           "    uint32_t expected = word_->Load(std::memory_order_relaxed);\n"
           "    (void)wrap;\n"
           "    if (abi::StateOf(expected) != abi::State::kFreeForWrap) {\n"
           "      return false;\n"
           "    }\n",
           "fifo", ONE_WRITER),
    Mutant("claim-tried-again", WRITER,
           "    if (state.TryClaim(geometry.WrapOf(position), word)) {\n",
           "    if (state.TryClaim(geometry.WrapOf(position), word) ||\n"
           "        state.TryClaim(geometry.NextWrapOf(position), word)) {\n",
           "fifo", ONE_WRITER),
    Mutant("full-one-too-late", RING,
           "    if (write - read >= geometry_.num_chunks()) {\n",
           "    if (write - read > geometry_.num_chunks()) {\n",
           "fifo", ("w1c2-full",)),
    Mutant("tag-incremented", READER,
           "  const abi::WrapCount next_wrap = "
           "geometry.NextWrapOf(read_pos_);\n",
           "  const abi::WrapCount next_wrap(wrap.value() + 1);\n",
           "legal-step", ("w1c16-rollover",)),
    Mutant("read-pos-too-early", READER,
           "  ring_.PublishReadPos(read_pos_);\n",
           "  ring_.PublishReadPos(read_pos_.Next());\n",
           "fifo", ONE_WRITER),
    Mutant("taken-without-winning", READER,
           "        if (state.TryReclaimComplete(word, next_wrap)) {\n",
           "        if (state.TryReclaimComplete(word, next_wrap) || true) {\n",
           "fifo", ONE_WRITER),
    Mutant("placed-copy-extended", READER,
           "  copied_word_ = 0;  // not to be extended\n",
           "  copied_word_ = word;\n",
           "accounting", ONE_WRITER),
    Mutant("writer-frees", CHUNK_STATE,
           "    return word_->CompareExchange(rewrite_requested, "
           "abi::kAcknowledgedWord,\n",
           "    return word_->CompareExchange(rewrite_requested, "
           "abi::FreeForWrap(abi::WrapCount(1)),\n",
           "only-the-reader-frees", ONE_WRITER),
    Mutant("reuse-without-asking", WRITER_H,
           "      if (!state_.TryReuse(word)) return false;\n",
           "      (void)!state_.TryReuse(word);\n",
           "ownership", ONE_WRITER),
    Mutant("request-changes-the-count", CHUNK_STATE,
           "        observed, abi::WithState(observed, "
           "abi::State::kRewriteRequested),\n",
           "        observed, abi::WithState(observed, "
           "abi::State::kRewriteRequested) + (1u << 16),\n",
           "legal-step", ONE_WRITER),
    Mutant("acknowledged-before-the-copy", WRITER,
           "  std::memcpy(scratch_.get(), suffix, payload_size);\n"
           "  uint8_t* const scratch_directory =\n"
           "      scratch_.get() + chunk_size_ - directory_size;\n"
           "  std::memcpy(scratch_directory, dir_cursor_, directory_size);\n"
           "\n"
           "  const bool acknowledged = Acknowledge(observed);\n",
           "  const bool acknowledged = Acknowledge(observed);\n"
           "  std::memcpy(scratch_.get(), suffix, payload_size);\n"
           "  uint8_t* const scratch_directory =\n"
           "      scratch_.get() + chunk_size_ - directory_size;\n"
           "  std::memcpy(scratch_directory, dir_cursor_, directory_size);\n",
           "intact", ONE_WRITER),
    Mutant("requested-before-the-copy", READER,
           "        const bool well_formed = "
           "CopyPublished(chunk, observed, nullptr);\n"
           "        if (state.TryRequestRewrite(word)) {\n",
           "        if (state.TryRequestRewrite(word)) {\n"
           "          const bool well_formed = "
           "CopyPublished(chunk, observed, nullptr);\n",
           "intact", ONE_WRITER),
    Mutant("freed-before-the-copy", READER,
           "        const bool well_formed = "
           "CopyPublished(chunk, observed, placer);\n"
           "        if (state.TryReclaimComplete(word, next_wrap)) {\n",
           "        if (state.TryReclaimComplete(word, next_wrap)) {\n"
           "          const bool well_formed = "
           "CopyPublished(chunk, observed, placer);\n",
           "intact", ONE_WRITER),
    Mutant("suffix-with-its-head", WRITER,
           "  suffix_ = start;\n",
           "",
           "intact", ONE_WRITER),
    Mutant("copy-of-an-earlier-position", READER,
           "  ResetCopy();\n"
           "  uint32_t word = state.LoadAcquire();\n",
           "  uint32_t word = state.LoadAcquire();\n",
           "no-duplicate", ONE_WRITER),
    Mutant("flags-moved-twice", WRITER,
           "      abi::NumFragmentsOf(word_) == 0 ? "
           "abi::FlagsOf(word_) : 0;\n",
           "      abi::FlagsOf(word_);\n",
           "accounting", ("w1c2-split",)),
    Mutant("reserved-before-acknowledged", WRITER,
           "  const bool acknowledged = Acknowledge(observed);\n"
           "  Forget();\n"
           "  ChunkOutcome outcome = ChunkOutcome::kPoisoned;\n"
           "  if (acknowledged) outcome = Acquire(flags);\n",
           "  ChunkState old = state_;\n"
           "  Forget();\n"
           "  ChunkOutcome outcome = Acquire(flags);\n"
           "  (void)!old.TryAcknowledge(observed);\n",
           "termination", ("w2c2-stall",)),
    Mutant("lost-suffix-not-counted", WRITER,
           "  account_.Lose(CauseOf(outcome), finalised, part);\n",
           "",
           "accounting", ONE_WRITER),
    Mutant("loss-not-owed", TRACE_WRITER,
           "  account_.Lose(cause, 1, part);\n"
           "  chunk_.OweLoss();\n",
           "  account_.Lose(cause, 1, part);\n",
           "accounting", ONE_WRITER),
    Mutant("distance-before-the-reservation", RING,
           "      reservation->distance = write + 1 - read;\n",
           "      reservation->distance = write - read;\n",
           "wake-up", ("w1c2-sleep", "w1c2-sleep-prompt")),
    Mutant("armed-without-a-second-look", SCHEDULER,
           "      if (!ring->AtThreshold()) return true;\n",
           "      return true;\n",
           "wake-up", ("w1c2-sleep",)),
    Mutant("hint-before-the-store", RING,
           "  control.read_pos.Store(read_pos.value(), "
           "std::memory_order_release);\n"
           "  SharedFenceSeqCst();\n"
           "  // Only a hint: a waiter that died leaves it raised, which "
           "costs a call.\n"
           "  if (control.num_writers_waiting.Load(std::memory_order_relaxed) "
           "== 0) return;\n",
           "  const uint32_t waiting =\n"
           "      control.num_writers_waiting.Load("
           "std::memory_order_relaxed);\n"
           "  control.read_pos.Store(read_pos.value(), "
           "std::memory_order_release);\n"
           "  if (waiting == 0) return;\n",
           "wake-up", ("w1c2-stall",)),
    Mutant("burned-claim-not-told", WRITER,
           "    claim_failed = true;\n"
           "    Notify();\n",
           "    claim_failed = true;\n",
           "wake-up", ("w1c2-sleep-more", "w1c2-sleep-prompt",
                       "w1c2-stall-prompt", "w2c2-sleep")),
    Mutant("attach-phase-ends-at-a-request", READER,
           "        // Scraped one traversal ago or more; only its writer may "
           "leave it.\n",
           "        attach_positions_left_ = 0;\n",
           "legal-step", ("w2c16-restart",)),
    Mutant("no-attach-phase", READER,
           "        if (attach_positions_left_ != 0 &&\n",
           "        if (attach_positions_left_ == 77 &&\n",
           "legal-step", ("w1c2-restart",)),
    Mutant("dead-writer-blocks-the-reader", READER,
           "        // A malformed chunk is taken from its writer like any "
           "other: it must\n",
           "        if (abi::NumFragmentsOf(observed) == 0) "
           "return Step::kRetryLater;\n",
           "termination", ("w1c2-death",)),
    Mutant("cut-off-packet-not-counted", ASSEMBLER,
           "    if (writer.chain == Chain::kOpen) LosePartial(&writer, "
           "cause);\n",
           "    if (writer.chain == Chain::kOpen) ClosePartial(&writer);\n"
           "    (void)cause;\n",
           "accounting", ("w1c2-death-split",)),
    Mutant("orphan-not-counted", ASSEMBLER,
           "      split == SplitPackets::kCountHere ? Chain::kGap : "
           "Chain::kCounted;\n",
           "      split == SplitPackets::kCountHere ? Chain::kCounted : "
           "Chain::kCounted;\n",
           "accounting", ("w1c2-restart-split",)),
    Mutant("stored-bytes-repeat-at-the-end", TARGET,
           "    std::memcpy(memory_.get(), "
           "static_cast<const uint8_t*>(bytes) + until_end,\n"
           "                size - until_end);\n",
           "    std::memcpy(memory_.get(), bytes, size - until_end);\n",
           "intact", ("w1c2-sleep",)),
    Mutant("profile-drop-does-not-wake", PROFILE,
           "    if (old.reader_sleeping()) WakeReader();\n",
           "",
           "wake-up", ("profile-drop", "profile-overflow")),
    Mutant("profile-sleep-without-saying", PROFILE,
           "    if (ReplaceW(w, w.With(ProfileIndex::kReaderSleeping))) "
           "Sleep();\n",
           "    (void)ReplaceW(w, w.With(ProfileIndex::kReaderSleeping));\n"
           "    Sleep();\n",
           "wake-up", ("profile-drop", "profile-overflow")),
    Mutant("profile-gives-back-at-once", PROFILE,
           "  return {ProfileReadOutcome::kRecords, &data_[begin], taken, "
           "&tags_[first_tag],\n",
           "  words().r.Store(next_.word(), kOrder);\n"
           "  return {ProfileReadOutcome::kRecords, &data_[begin], taken, "
           "&tags_[first_tag],\n",
           "ownership", ("profile-wrap",)),
    Mutant("profile-end-without-a-look", PROFILE,
           "      if (LoadW().data_count() != next_.data_count() ||\n"
           "          words().overflow.Look().any()) {\n",
           "      if (false) {\n",
           "accounting", ("profile-wrap", "profile-overflow")),
    Mutant("profile-drop-told-too-early", PROFILE,
           "      if (LoadW().data_count() != next_.data_count()) continue;\n"
           "      const PendingOverflow::Taken taken =\n",
           "      const PendingOverflow::Taken taken =\n",
           "accounting", ("profile-overflow",)),
    Mutant("profile-drop-told-twice", OVERFLOW,
           "    if (!word_.CompareExchange(word, NextGeneration(word), kOrder, "
           "kOrder)) {\n"
           "      return {};\n"
           "    }\n",
           "    word_.Store(NextGeneration(word), kOrder);\n",
           "accounting", ("profile-overflow",)),
)


def find(name: str) -> Mutant:
    for mutant in MUTANTS:
        if mutant.name == name:
            return mutant
    sys.exit(f"no mutant is called {name}")


def changed(mutant: Mutant, root: str) -> str:
    with open(os.path.join(root, mutant.file), encoding="utf-8") as source:
        text = source.read()
    if text.count(mutant.old) != 1:
        sys.exit(f"{mutant.file}: what {mutant.name} changes stands there "
                 f"{text.count(mutant.old)} times")
    return text.replace(mutant.old, mutant.new)


def write(mutant: Mutant, root: str, directory: str) -> None:
    text = changed(mutant, root)
    path = os.path.join(directory, mutant.file)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as copy:
        copy.write(text)


def run(directory: str, names: List[str]) -> int:
    wanted = [find(name) for name in names] or MUTANTS
    survivors = 0
    for mutant in wanted:
        command = [os.path.join(directory, "mutant-" + mutant.name),
                   "--expect", mutant.caught_by]
        for configuration in mutant.configurations:
            command += ["--only", configuration]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True,
                              check=False)
        found = [line for line in done.stdout.splitlines()
                 if line.startswith("VIOLATION")]
        where = [line.split()[0] for line in done.stdout.splitlines()
                 if line and line.split()[0] in mutant.configurations]
        caught = done.returncode == 0
        survivors += not caught
        print(f"{'caught' if caught else 'MISSED':7} {mutant.name:32} "
              f"{where[-1] if where else '-':20} "
              f"{found[0][len('VIOLATION of '):] if found else 'no violation'}",
              flush=True)
    print(f"{len(wanted) - survivors} of {len(wanted)} mutants caught")
    return 1 if survivors else 0


def main() -> int:
    arguments = sys.argv[1:]
    if arguments == ["list"]:
        for mutant in MUTANTS:
            print(f"{mutant.name:32} {mutant.caught_by:22} {mutant.file}")
        return 0
    if arguments == ["configure"]:
        for mutant in MUTANTS:
            print(f"{mutant.name}:{mutant.file}")
        return 0
    if len(arguments) == 4 and arguments[0] == "write":
        write(find(arguments[1]), *arguments[2:])
        return 0
    if len(arguments) == 2 and arguments[0] == "check":
        for mutant in MUTANTS:
            changed(mutant, arguments[1])
        return 0
    if len(arguments) >= 2 and arguments[0] == "run":
        return run(arguments[1], arguments[2:])
    sys.exit(__doc__)


if __name__ == "__main__":
    sys.exit(main())
