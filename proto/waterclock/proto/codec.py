"""One codec for every message: JSON by msgspec."""

import msgspec

from waterclock.proto.events import Frame, JobFrame
from waterclock.proto.work import WorkItem

encode = msgspec.json.Encoder().encode
decode_frame = msgspec.json.Decoder(Frame).decode
decode_job_frame = msgspec.json.Decoder(JobFrame).decode
decode_work = msgspec.json.Decoder(WorkItem).decode
