"""Workflows that are described in TOML files and executed durably on DBOS."""

from chat_pipeline._folder_schedules import FolderSchedule
from chat_pipeline._program import CodeLimits
from chat_pipeline.calls import AgentRuntime, ChatRuntime, ToolRuntime
from chat_pipeline.code_mode import CodeTool, code_tool
from chat_pipeline.definition import Task, Workflow
from chat_pipeline.errors import Problem, ProgramError, TaskError, WorkflowFileError
from chat_pipeline.files import FileRead, FileWrite, Folder
from chat_pipeline.http import Http
from chat_pipeline.pipelines import PipelineLimits, Pipelines
from chat_pipeline.python import Python
from chat_pipeline.runs import Run, TaskStatus
from chat_pipeline.runtime import ConfigField, Passthrough, Runtime, TaskCall, Transform, Waiting
from chat_pipeline.schedule import Schedule
from chat_pipeline.waking import wake_due, wake_run
from chat_pipeline.workflow_file import load_workflow, parse_workflow
from chat_pipeline.workflow_folder import WorkflowFolder
from chat_pipeline.workflow_tool import WorkflowTool

__all__ = [
    "AgentRuntime",
    "ChatRuntime",
    "CodeLimits",
    "CodeTool",
    "ConfigField",
    "FileRead",
    "FileWrite",
    "Folder",
    "FolderSchedule",
    "Http",
    "Passthrough",
    "PipelineLimits",
    "Pipelines",
    "Problem",
    "ProgramError",
    "Python",
    "Run",
    "Runtime",
    "Schedule",
    "Task",
    "TaskCall",
    "TaskError",
    "TaskStatus",
    "ToolRuntime",
    "Transform",
    "Waiting",
    "Workflow",
    "WorkflowFileError",
    "WorkflowFolder",
    "WorkflowTool",
    "code_tool",
    "load_workflow",
    "parse_workflow",
    "wake_due",
    "wake_run",
]
