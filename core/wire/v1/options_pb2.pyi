from google.protobuf import descriptor_pb2 as _descriptor_pb2
from google.protobuf import descriptor as _descriptor
from typing import ClassVar as _ClassVar

DESCRIPTOR: _descriptor.FileDescriptor
MAX_LEN_FIELD_NUMBER: _ClassVar[int]
max_len: _descriptor.FieldDescriptor
MAX_ITEMS_FIELD_NUMBER: _ClassVar[int]
max_items: _descriptor.FieldDescriptor
MAX_VALUE_FIELD_NUMBER: _ClassVar[int]
max_value: _descriptor.FieldDescriptor
