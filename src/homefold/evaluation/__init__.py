"""Records of runs."""

from homefold.evaluation.records import RunRecord, append_record, load_records, read_records

__all__ = ["RunRecord", "append_record", "load_records", "read_records"]
